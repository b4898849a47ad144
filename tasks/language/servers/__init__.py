"""Model servers that Parley starts itself."""
