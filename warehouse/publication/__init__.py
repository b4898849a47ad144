"""Publication: a new warehouse file is built beside the old one from what passed the checks, and put in its place."""
