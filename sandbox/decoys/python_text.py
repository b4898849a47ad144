"""Positions of a syntax tree's nodes in their text, as byte offsets."""

import ast
from functools import cached_property

_PLAIN = {int: "int", float: "float", str: "str", bool: "bool", bytes: "bytes"}


class Text:
    """Python text with the positions of its nodes."""

    def __init__(self, text: str) -> None:
        self._content = text.encode("utf-8", "surrogatepass")

    @cached_property
    def _lines(self) -> list[int]:
        """Return the offset of each line, as Python's grammar counts lines."""
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

    def type_probe(self, left: ast.expr, right: ast.expr) -> str:
        """Return an expression that is true if the compared value has the literal's type.

        The text is empty unless exactly one of the operands is a literal of a plain type.
        """
        for value, literal in ((left, right), (right, left)):
            kind = type(literal.value) if isinstance(literal, ast.Constant) else None
            if kind in _PLAIN and not isinstance(value, ast.Constant):
                return f"type({self.of(value)}) is {_PLAIN[kind]}"
        return ""
