"""Measurements side by side, as ratios: `make bench` and its sisters.

Nothing here is collected by pytest or timed in a test.
"""
