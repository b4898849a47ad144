"""Simulated users: personas, guidelines for each level, and code that users must not disclose."""
