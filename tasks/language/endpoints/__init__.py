"""Clients of OpenAI-compatible endpoints: requests, answers, faults, outages and batches."""
