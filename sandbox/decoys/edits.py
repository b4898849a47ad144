"""Edits of a test's text: each alters what one check expects."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

Altered = TypeVar("Altered")
Kind = Literal["negation", "constant", "hidden"]
Reach = Literal["certain", "held", "maybe"]
"""`certain`: nothing stands around the check. `held`: it is reached, but an object of the tests or of the code under test stands
around it, as in a `with`. `maybe`: a loop, branch, handler or function stands around it."""
_FAILURE = "[][0]"
"""Expression that fails wherever it is evaluated."""


@dataclass(frozen=True)
class Edit:
    """One alteration of one check."""

    start: int
    """Byte offset in the text, UTF-8."""
    end: int
    replacement: str
    kind: Kind
    """`negation` turns the truth of the check round; `constant` puts another constant in the place of an expected one; `hidden`
    writes the same constant as an expression, so that an honest answer passes and one that reads constants fails."""
    scope: str
    """Dotted name of the function and classes around it; empty at the top of the text."""
    reach: Reach
    """How certain it is that a run which passes comes to the check."""
    check: str
    """Text of the line with the check, as altered."""
    span: tuple[int, int]
    """Byte offsets of the whole check."""
    probe: str = ""
    """Expression that is true where the compared value is a plain built-in one; empty where none can be given."""
    is_strict: bool = True
    """Whether no honest answer passes both the check and its alteration: see `decisive.py`. Otherwise the reference, whose value
    may be another one, does not show that the decoy is sound."""


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with edits that do not overlap."""
    for edit in sorted(edits, key=lambda one: one.start, reverse=True):
        text = spliced(text, edit.start, edit.end, edit.replacement)
    return text


def spliced(text: str, start: int, end: int, source: str) -> str:
    """Return the text with this source between two byte offsets."""
    content = text.encode("utf-8", "surrogatepass")
    return (content[:start] + source.encode("utf-8", "surrogatepass") + content[end:]).decode(
        "utf-8", "surrogatepass"
    )


def probed(text: str, edit: Edit) -> str:
    """Return the text with the edit's probe in the place of its check."""
    return spliced(text, *edit.span, edit.probe)


def failing(text: str, edit: Edit) -> str:
    """Return the text in which the edit's check fails by itself: a run that passes it does not come to the check."""
    return spliced(text, *edit.span, _FAILURE)


def as_failing(edit: Edit) -> Edit:
    """Return the edit that puts an expression that fails in the place of the check."""
    return replace(edit, start=edit.span[0], end=edit.span[1], replacement=_FAILURE)


def line_with(text: str, edit: Edit, longest: int = 300) -> str:
    """Return the line of the altered text in which the edit stands."""
    before = text.encode("utf-8", "surrogatepass")[: edit.start].decode("utf-8", "surrogatepass")
    lines = edited(text, [edit]).split("\n")
    return lines[before.count("\n")].strip()[:longest]


def in_turn(units: Sequence[Sequence[Altered]], most: int) -> list[list[Altered]]:
    """Return the variants of a group of units: the n-th one holds the n-th alteration of each unit that has so many."""
    n_variants = min(most, max(map(len, units), default=0))
    return [[unit[n] for unit in units if n < len(unit)] for n in range(n_variants)]
