"""Names of a budget's caps, for who needs no model of them."""

CAPS = ("tokens", "usd", "gpu_hours", "wall_hours")
"""In the order in which they are told."""
