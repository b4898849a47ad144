"""Isolation of generated code, and verdicts on it."""
