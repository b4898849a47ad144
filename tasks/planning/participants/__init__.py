"""Who takes part in a run: setting, models, judges and embedder, and how many requests each endpoint gets at once."""
