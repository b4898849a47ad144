"""Driver side of a stage: cut shards, send them to workers, store the results."""
