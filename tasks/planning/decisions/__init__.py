"""Early decisions of a run: baseline, evidence, and the table `decisions`."""
