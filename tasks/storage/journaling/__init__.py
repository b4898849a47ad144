"""Journals: rows that are appended to segments immediately, before Parquet contains them."""
