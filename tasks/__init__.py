"""Stages of a run, and the benchmarks, dialogues, models and metrics they use."""
