"""Parley's home: the lake, journals and stored answers."""
