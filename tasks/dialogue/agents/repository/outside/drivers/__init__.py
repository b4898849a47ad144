"""Scripts that run another project's agent on its own Python. No module of Parley imports them."""
