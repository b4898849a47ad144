"""Budgets, checkpoints, costs and server use of a night, and the rules that compare its runs."""
