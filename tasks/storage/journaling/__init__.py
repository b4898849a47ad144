"""What is kept before Parquet holds it: rows as they come, in segments, by the shard that holds them."""
