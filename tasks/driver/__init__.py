"""The side of a stage that cuts shards, sends them to workers and stores results."""
