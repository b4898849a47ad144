"""`parley export` and `parley build`: files written from finished runs."""
