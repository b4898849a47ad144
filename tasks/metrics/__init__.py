"""Metrics: pure functions from verdicts and answers to values."""
