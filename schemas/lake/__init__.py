"""Storage form of values in the lake: versioned tables, rows in Arrow, and records of runs."""
