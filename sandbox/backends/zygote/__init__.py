"""Sandbox `zygote`."""
