"""Edits of a test's text, each of which alters the expectation of one check."""

import ast
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from sandbox.decoys.expected import other_source

Altered = TypeVar("Altered")
Kind = Literal["negation", "constant", "hidden"]
Reach = Literal["certain", "held", "maybe"]
"""How certain it is that a passing run executes the check.

`certain`: no other statement encloses the check. `held`: the check is executed, but inside a `with`
whose object belongs to the tests or to the code under test. `maybe`: a loop, branch, exception
handler or function encloses the check.
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
    """`negation` negates the check. `constant` replaces an expected constant by another one.
    `hidden` writes the constant as an expression of equal value: an honest answer still passes, but
    an answer that reads the tests' constants fails.
    """
    scope: str
    """Dotted name of the enclosing classes and function; empty at the top level of the text."""
    reach: Reach
    """How certain it is that a passing run executes the check."""
    check: str
    """Line that contains the check, after the edit."""
    span: tuple[int, int]
    """Byte offsets of the whole check."""
    probe: str = ""
    """Expression that is true if the compared value has a plain built-in type; empty if there is no
    such expression.
    """
    is_strict: bool = True
    """True if no honest answer passes both the check and the altered check (see `decisive.py`). If
    False, the reference's failure does not prove that the decoy is sound, since an honest answer's
    value may differ from the reference's.
    """


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
    """Return the text with the edit's probe, a check of the value's type, in place of its check."""
    return spliced(text, *edit.span, edit.probe)


def failing(text: str, edit: Edit) -> str:
    """Return the text in which the edit's check always fails.

    A run that passes this text does not execute the check.
    """
    return spliced(text, *edit.span, _FAILURE)


def as_failing(edit: Edit) -> Edit:
    """Return the edit that replaces the whole check by an expression that fails."""
    return replace(edit, start=edit.span[0], end=edit.span[1], replacement=_FAILURE)


_LONGEST_LINE = 300


def line_with(text: str, edit: Edit) -> str:
    """Return the line of the altered text that contains the edit."""
    before = text.encode("utf-8", "surrogatepass")[: edit.start].decode("utf-8", "surrogatepass")
    lines = edited(text, [edit]).split("\n")
    return lines[before.count("\n")].strip()[:_LONGEST_LINE]


def in_turn(units: Sequence[Sequence[Altered]], most: int) -> list[list[Altered]]:
    """Distribute the alterations of several units (tests with their own verdicts) over variants.

    The n-th variant of the program contains the n-th alteration of each unit that has at least n.
    """
    n_variants = min(most, max(map(len, units), default=0))
    return [[unit[n] for unit in units if n < len(unit)] for n in range(n_variants)]


def altered_examples(text: str, draw: random.Random) -> str | None:
    """Alter the first literal that a doctest example expects; return None without one."""
    lines = text.split("\n")
    for n, line in enumerate(lines[:-1]):
        expected = lines[n + 1].strip()
        if (
            line.strip().startswith((">>>", "..."))
            and expected
            and not expected.startswith((">>>", "..."))
        ):
            try:
                value = ast.parse(expected, mode="eval").body
            except (SyntaxError, ValueError):
                continue
            if isinstance(value, ast.Constant):
                return "\n".join(
                    [
                        *lines[: n + 1],
                        lines[n + 1].replace(expected, other_source(value, draw)),
                        *lines[n + 2 :],
                    ]
                )
    return None
