"""Names of a budget's caps, for modules that need no model of them."""

CAPS = ("tokens", "usd", "gpu_hours", "wall_hours")
"""Names of the caps, in the order in which reports list them."""
