"""Comparison of a benchmark's runs: pair by pair, and as a series over nights."""
