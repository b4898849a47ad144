"""Agents that answer in place of the bare chat model."""
