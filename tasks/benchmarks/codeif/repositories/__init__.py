"""Repository tasks: their rows, projects and golden contexts, and how an answer gets into its project."""
