"""Handling of external input: texts, variables with keys, libraries and plug-ins."""
