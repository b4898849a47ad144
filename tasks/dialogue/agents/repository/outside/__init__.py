"""Agents of other projects, each in a process and an environment of its own; see `adapters.py`."""
