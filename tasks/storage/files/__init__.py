"""Files that programs and agents work on: trees by content, and what they are made of."""
