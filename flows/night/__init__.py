"""Night runs: configuration, checks, parallel execution, budget and reports."""
