"""What becomes of a run: its account and report, how it is compared, published and released."""
