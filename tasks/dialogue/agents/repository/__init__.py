"""Agents that work in a repository and may talk with its user: one loop, several prompt files."""
