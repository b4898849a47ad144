"""Prefect server and Dask cluster of a run."""
