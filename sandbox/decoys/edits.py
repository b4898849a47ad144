"""Edits of a test's text: each alters what one check expects."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

Altered = TypeVar("Altered")


@dataclass(frozen=True)
class Edit:
    """One alteration of one check."""

    start: int
    """Byte offset in the text, UTF-8."""
    end: int
    replacement: str
    kind: Literal["negation", "constant"]
    """`negation` turns the truth of the check round; `constant` puts another constant in the place of an expected one."""
    scope: str
    """Dotted name of the function and classes around it; empty at the top of the text."""
    is_certain: bool
    """Whether the check is reached in each run that passes: no loop, branch, handler or foreign `with` stands around it."""
    check: str
    """Text of the line with the check, as altered."""
    probe: str = ""
    """Expression that is true where the compared value is a plain built-in one; empty where none can be given."""
    probe_span: tuple[int, int] = (0, 0)
    """Byte offsets of what the probe replaces."""


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with edits that do not overlap."""
    content = text.encode("utf-8", "surrogatepass")
    for edit in sorted(edits, key=lambda one: one.start, reverse=True):
        content = content[: edit.start] + edit.replacement.encode("utf-8", "surrogatepass") + content[edit.end :]
    return content.decode("utf-8", "surrogatepass")


def probed(text: str, edit: Edit) -> str:
    """Return the text with the edit's probe in the place of its check."""
    start, end = edit.probe_span
    return edited(text, [replace(edit, start=start, end=end, replacement=edit.probe)])


def line_with(text: str, edit: Edit, longest: int = 300) -> str:
    """Return the line of the altered text in which the edit stands."""
    before = text.encode("utf-8", "surrogatepass")[: edit.start].decode("utf-8", "surrogatepass")
    lines = edited(text, [edit]).split("\n")
    return lines[before.count("\n")].strip()[:longest]


def in_turn(units: Sequence[Sequence[Altered]], most: int) -> list[list[Altered]]:
    """Return the variants of a group of units: the n-th one holds the n-th alteration of each unit that has so many."""
    n_variants = min(most, max(map(len, units), default=0))
    return [[unit[n] for unit in units if n < len(unit)] for n in range(n_variants)]
