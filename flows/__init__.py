"""Prefect flows and the command line: what people start."""
