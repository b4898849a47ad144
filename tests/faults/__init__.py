"""Model servers that misbehave: what becomes of each fault."""
