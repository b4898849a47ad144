"""Measures of a dialogue: judges' ratings, entities, and similarity of replies to the reference."""
