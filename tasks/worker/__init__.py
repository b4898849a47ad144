"""The side of a stage that runs in Dask workers."""
