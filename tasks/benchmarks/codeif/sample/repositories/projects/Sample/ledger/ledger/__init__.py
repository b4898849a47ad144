"""Accounts in whole cents."""
