"""Canary: programs with a known verdict that run before anything costs money.

Attacks must not pass, and correct programs (golds) must pass.
"""
