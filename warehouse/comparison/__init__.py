"""Compares runs of a benchmark with each other: pair by pair, and as a series over nights."""
