"""Results, listings and how-to pages as text."""
