"""Checks before a night starts anything: its cost, sandbox, packages, endpoints and folders."""
