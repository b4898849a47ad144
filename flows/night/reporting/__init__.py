"""Reports of a night: live progress, run records, metrics and notifications."""
