"""Sandbox `docker`."""
