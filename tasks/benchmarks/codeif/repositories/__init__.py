"""Repository tasks: rows, projects, golden contexts, and the placement of answers in projects."""
