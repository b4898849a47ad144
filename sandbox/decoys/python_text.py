"""Places of a syntax tree's nodes in their text, as byte offsets."""

import ast
from functools import cached_property


class Text:
    """A Python text and the places of its nodes."""

    def __init__(self, text: str) -> None:
        self._content = text.encode("utf-8", "surrogatepass")

    @cached_property
    def _lines(self) -> list[int]:
        """Offset of each line, as Python's grammar counts lines."""
        starts, place = [0], 0
        for line in self._content.splitlines(keepends=True):
            place += len(line)
            starts.append(place)
        return starts

    def span(self, node: ast.expr) -> tuple[int, int]:
        """Return the byte offsets at which a node begins and ends."""
        last_line, last_column = (
            node.end_lineno or node.lineno,
            node.end_col_offset or node.col_offset,
        )
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[
            last_line - 1
        ] + last_column

    def of(self, node: ast.expr) -> str:
        """Return a node's source."""
        start, end = self.span(node)
        return self._content[start:end].decode("utf-8", "surrogatepass")
