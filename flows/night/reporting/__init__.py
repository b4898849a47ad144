"""What a night tells people: progress while it runs, its record and report, and word of failures and regressions."""
