"""Checkpoints: their sources, completeness, and earlier evaluations."""
