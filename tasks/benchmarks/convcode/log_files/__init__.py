"""ConvCodeBench's log files: finding and reading them, playing them, and writing live runs as such."""
