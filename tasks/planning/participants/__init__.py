"""Participants of a run: setting, models, judges, embedder, and each endpoint's concurrency."""
