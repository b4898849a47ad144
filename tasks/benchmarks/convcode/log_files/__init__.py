"""ConvCodeBench's log files: reading, replay, and export of live runs as logs."""
