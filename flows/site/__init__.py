"""A home's published results as a static folder of pages: `parley site`."""
