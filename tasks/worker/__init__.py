"""Worker side of a stage, in Dask worker processes."""
