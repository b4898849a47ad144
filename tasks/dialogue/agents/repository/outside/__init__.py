"""Agents of other projects, each in its own process and environment. See `adapters.py`."""
