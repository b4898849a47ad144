"""Verdicts on programs, in Parley's own process."""
