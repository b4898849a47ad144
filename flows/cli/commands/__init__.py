"""The commands, one file a group of them; how their arguments are read, and how an evaluation ends."""
