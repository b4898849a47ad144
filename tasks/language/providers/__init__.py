"""Providers of models: one file each, found by the word before a model spec's colon."""
