"""Commands of `parley`, one module for each group, and the parsing of their options."""
