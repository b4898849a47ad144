"""Participants of a dialogue, and the order of their turns."""
