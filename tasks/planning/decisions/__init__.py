"""Early decisions of a run: its baseline, the evidence so far, and what is kept of both."""
