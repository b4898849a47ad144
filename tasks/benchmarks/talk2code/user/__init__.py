"""The user: personas, how each level talks, the simulated user, and what it must not hand over."""
