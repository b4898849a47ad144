"""Audit of passed tests: they run again with altered expectations."""
