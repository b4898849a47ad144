"""The DuckDB warehouse: loading, checks, marts and comparisons."""
