"""Reporting of runs: accounts of work, reports, comparison rules, publication and releases."""
