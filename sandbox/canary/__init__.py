"""Canary: a test of the sandbox by programs with a known verdict, before anything costs money.

Attacks must fail, and correct programs (golds) must pass.
"""
