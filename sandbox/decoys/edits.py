"""Edits of a test's text. Each alters the expectation of one check."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

Altered = TypeVar("Altered")
Kind = Literal["negation", "constant", "hidden"]
Reach = Literal["certain", "held", "maybe"]
"""Probability that a passing run reaches the check.

`certain`: nothing surrounds the check. `held`: it is reached, but an object of the tests or of the
code under test surrounds it, as in a `with`. `maybe`: a loop, branch, handler or function surrounds
it.
"""
_FAILURE = "[][0]"
"""Expression that always fails."""


@dataclass(frozen=True)
class Edit:
    """One alteration of one check."""

    start: int
    """Byte offset in the text (UTF-8) at which the replaced part begins."""
    end: int
    replacement: str
    kind: Kind
    """`negation` negates the check; `constant` replaces an expected constant by another one;
    `hidden` writes the same constant as an expression, so that an honest answer passes and one that
    reads constants fails."""
    scope: str
    """Dotted name of the surrounding function and classes; empty at the top of the text."""
    reach: Reach
    """Probability that a passing run reaches the check."""
    check: str
    """Line with the check, after the alteration."""
    span: tuple[int, int]
    """Byte offsets of the whole check."""
    probe: str = ""
    """Expression that is true if the compared value is a plain built-in one; empty if there is
    none."""
    is_strict: bool = True
    """True if no honest answer passes both the check and its alteration (see `decisive.py`). If
    False, the reference's failure does not prove that the decoy is sound, since an honest value may
    differ from the reference's."""


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits, which must not overlap, to a text, and return the result."""
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = spliced(text, edit.start, edit.end, edit.replacement)
    return text


def spliced(text: str, start: int, end: int, source: str) -> str:
    """Return the text with `source` in place of the part between two byte offsets."""
    content = text.encode("utf-8", "surrogatepass")
    return (content[:start] + source.encode("utf-8", "surrogatepass") + content[end:]).decode(
        "utf-8", "surrogatepass"
    )


def probed(text: str, edit: Edit) -> str:
    """Return the text with the edit's probe in place of its check."""
    return spliced(text, *edit.span, edit.probe)


def failing(text: str, edit: Edit) -> str:
    """Return the text in which the edit's check always fails.

    A run that passes this text does not reach the check.
    """
    return spliced(text, *edit.span, _FAILURE)


def as_failing(edit: Edit) -> Edit:
    """Return the edit that replaces the whole check by an expression that fails."""
    return replace(edit, start=edit.span[0], end=edit.span[1], replacement=_FAILURE)


def line_with(text: str, edit: Edit, longest: int = 300) -> str:
    """Return the line of the altered text that contains the edit."""
    before = text.encode("utf-8", "surrogatepass")[: edit.start].decode("utf-8", "surrogatepass")
    lines = edited(text, [edit]).split("\n")
    return lines[before.count("\n")].strip()[:longest]


def in_turn(units: Sequence[Sequence[Altered]], most: int) -> list[list[Altered]]:
    """Return variants of a group of units.

    The n-th variant contains the n-th alteration of each unit that has so many.
    """
    n_variants = min(most, max(map(len, units), default=0))
    return [[unit[n] for unit in units if n < len(unit)] for n in range(n_variants)]
