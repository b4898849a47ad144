"""Agents that remember a dialogue otherwise than by showing all of it: short adapters of published methods, written here."""
