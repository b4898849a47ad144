"""Plans of datasets that are built."""
