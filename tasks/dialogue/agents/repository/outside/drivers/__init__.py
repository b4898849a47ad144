"""Scripts that run another project's agent on that project's Python. Nothing of Parley imports them."""
