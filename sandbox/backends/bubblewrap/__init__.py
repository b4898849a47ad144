"""Sandbox `bubblewrap`."""
