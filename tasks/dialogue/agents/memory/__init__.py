"""Agents with a memory instead of the full conversation, as short adapters of published methods."""
