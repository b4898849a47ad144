"""Journals: rows that are appended to segments at once, before Parquet contains them."""
