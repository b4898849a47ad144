"""Public datasets: which there are, how they come to this machine, and where they lie."""
