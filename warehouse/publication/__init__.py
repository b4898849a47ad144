"""Publication: a new warehouse file from the data that passed the checks replaces the old one."""
