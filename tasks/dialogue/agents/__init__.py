"""Agents that answer in place of a bare chat model."""
