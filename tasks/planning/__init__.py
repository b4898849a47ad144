"""Plans of runs: what is wanted, what is finished and what is pending."""
