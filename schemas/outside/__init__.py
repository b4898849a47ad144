"""What meets the world outside of Parley: its texts, variables with keys, libraries and plug-ins."""
