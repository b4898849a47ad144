"""Runners for each kind of tests."""
