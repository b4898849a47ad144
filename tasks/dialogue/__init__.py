"""Participants of a dialogue, and the order in which they speak."""
