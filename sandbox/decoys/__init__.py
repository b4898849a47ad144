"""Audit of passes by tests with altered expectations."""
