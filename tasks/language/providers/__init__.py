"""Providers of models, one file each.

The word before the colon of a model spec names the provider.
"""
