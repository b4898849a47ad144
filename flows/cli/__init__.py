"""Command line of Parley (`parley`)."""
