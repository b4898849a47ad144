"""What a night may spend, takes and uses, and by what its runs are compared and released."""
