"""Rubrics, judgements and the prompts of judges."""
