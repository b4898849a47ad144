"""Workspaces for an agent's commands on a tree of files."""
