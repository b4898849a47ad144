"""Edits of a test's text, each of which alters the expectation of one check.

An edit searches for the constants that a check expects. Inputs of the code under test are not
expected constants. A replacement has the type of the expected constant, looks plausible, and is too
different to be accepted because of a tolerance or a remainder.
"""

import ast
import builtins
import json
import random
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from sandbox.decoys.python_syntax import last_name, root

SETTINGS = {
    "msg",
    "places",
    "delta",
    "rtol",
    "atol",
    "rel_tol",
    "abs_tol",
    "decimal",
    "err_msg",
    "rel",
    "abs",
    "check_dtype",
}
"""Keyword arguments of assertions that do not state an expectation."""
_OF_VALUES = frozenset(
    name
    for kind in (str, bytes, list, dict, set, tuple)
    for name in dir(kind)
    if not name.startswith("_")
)
_OF_VALUES |= {"equals", "item", "tolist", "all", "any"}
"""Methods of results. Their arguments are expectations, whereas arguments of code under test are
its input."""


@dataclass
class Expected:
    """Search for expected constants in the expressions of one text."""

    of_tests: frozenset[str]
    """Names of modules that the tests import, and of functions and classes that they define."""
    is_turned: bool = False
    """True if the current check fails when its expression is true."""

    def of(
        self, node: ast.expr, *, below: bool = False
    ) -> list[tuple[ast.Constant | ast.expr, bool]]:
        """Return the constants of an expression, without inputs of code under test.

        With each constant comes a flag: True if a smaller constant makes the check fail.
        """
        match node:
            case ast.Constant() if not isinstance(node.value, type(...)) and node.value is not None:
                return [(node, below)]
            case ast.List(elts=[]) | ast.Dict(keys=[]) | ast.Tuple(elts=[]):
                return [(node, below)]
            case ast.JoinedStr() | ast.Subscript() | ast.Lambda():
                return self.of(node.value) if isinstance(node, ast.Subscript) else []
            case ast.Compare():
                return self._of_comparison(node)
            case ast.Call():
                return self._of_call(node)
            case _:
                inner = (
                    child
                    for child in ast.iter_child_nodes(node)
                    if isinstance(child, ast.expr | ast.comprehension)
                )
                parts = [
                    part.iter if isinstance(part, ast.comprehension) else part for part in inner
                ]
                return [constant for part in parts for constant in self.of(part, below=below)]

    def _of_comparison(self, node: ast.Compare) -> list[tuple[ast.Constant | ast.expr, bool]]:
        """Return the constants of a comparison, with flags as in `of`.

        A bound must be moved past the value that it limits. Constants that a value must differ from
        are omitted, since the value differs from most other constants, too.
        """
        sides = [node.left, *node.comparators]
        kinds = [*node.ops, *node.ops[-1:]]
        constants: list[tuple[ast.Constant | ast.expr, bool]] = []
        skipped = (ast.Eq, ast.In, ast.Is) if self.is_turned else (ast.NotEq, ast.NotIn, ast.IsNot)
        for n, side in enumerate(sides):
            op = kinds[n] if n == 0 else node.ops[n - 1]
            if not isinstance(op, skipped):
                constants += self.of(
                    side, below=isinstance(op, (ast.Gt, ast.GtE) if n == 0 else (ast.Lt, ast.LtE))
                )
        return constants

    def _of_call(self, node: ast.Call) -> list[tuple[ast.Constant | ast.expr, bool]]:
        first = root(node.func)
        is_method = isinstance(node.func, ast.Attribute) and first not in self.of_tests
        constants = self.of(node.func.value) if isinstance(node.func, ast.Attribute) else []
        if is_method and last_name(node) not in _OF_VALUES:
            return constants
        if (
            not is_method
            and isinstance(node.func, ast.Name)
            and not (first in self.of_tests or hasattr(builtins, first))
        ):
            return constants
        arguments = [
            *node.args,
            *(constant.value for constant in node.keywords if constant.arg not in SETTINGS),
        ]
        return constants + [constant for argument in arguments for constant in self.of(argument)]


_OF_VALUES |= {"equals", "item", "tolist", "all", "any"}
"""Methods of results. Their arguments are expectations, whereas arguments of code under test are
its input."""


_OFFSETS = (1049, 2017, 3163, 4421, 5519, 6247, 7121, 8237, 9293)
"""Offsets for expected numbers. They are prime, so that remainders of the numbers change, too."""
_WORDS = ("harbor", "lantern", "meadow", "orchid", "pebble", "timber", "violet", "walnut")


def other_source(
    node: ast.Constant, draw: random.Random, *, below: bool = False, like: str = ""
) -> str:
    """Return the source of another constant.

    Args:
        node: constant to replace.
        draw: source of random choices.
        below: if True, return a smaller number, which violates a lower bound; otherwise a larger
            one.
        like: source of the constant. The new constant gets the same kind of quotes.
    """
    other = _other(node.value, draw, -1 if below else 1)
    is_doubly_quoted = isinstance(other, str) and like.startswith('"')
    return json.dumps(other, ensure_ascii=False) if is_doubly_quoted else repr(other)


def _other(value: object, draw: random.Random, sign: int) -> object:
    match value:
        case bool():
            return not value
        case int():
            return value + sign * (draw.choice(_OFFSETS) + 4 * abs(value))
        case float():
            return value + sign * (draw.choice(_OFFSETS) + 0.5 + 4 * abs(value))
        case complex():
            return value + draw.choice(_OFFSETS)
        case str():
            return other_text(value, draw)
        case bytes():
            return other_text(value.decode("latin-1"), draw).encode("latin-1")
        case _:
            return draw.choice(_OFFSETS)


def other_number(source: str, draw: random.Random) -> str:
    """Return the source of a number that is larger than the given decimal literal."""
    return (
        str(float(source) + draw.choice(_OFFSETS))
        if "." in source
        else str(int(source) + draw.choice(_OFFSETS))
    )


def other_text(text: str, draw: random.Random) -> str:
    """Shift letters and digits, and keep everything else, so that the text looks similar."""
    letters, digits = draw.randrange(1, 26), draw.randrange(1, 10)
    shifted = "".join(_shifted(character, letters, digits) for character in text)
    return shifted if shifted != text else text + draw.choice(_WORDS)


def _shifted(character: str, letters: int, digits: int) -> str:
    for alphabet, by in (
        (string.ascii_lowercase, letters),
        (string.ascii_uppercase, letters),
        (string.digits, digits),
    ):
        if character in alphabet:
            return alphabet[(alphabet.index(character) + by) % len(alphabet)]
    return character


def hidden_source(node: ast.Constant, draw: random.Random) -> str:
    """Return an expression that has the value of the constant without containing it.

    The text is empty for types that have no such expression. The expression uses only operators,
    since code under test may redefine built-ins, and has a form that the compiler does not fold to
    a constant.
    """
    value = node.value
    if type(value) is int:
        mask = draw.choice(_OFFSETS)
        return f"([{value ^ mask}][0] ^ {mask})"
    if type(value) is str and value and value.isprintable():
        return (
            f"({'%c' * len(value)!r} % ({''.join(f'{ord(character)}, ' for character in value)}))"
        )
    return ""


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


def line_with(text: str, edit: Edit, longest: int = 300) -> str:
    """Return the line of the altered text that contains the edit."""
    before = text.encode("utf-8", "surrogatepass")[: edit.start].decode("utf-8", "surrogatepass")
    lines = edited(text, [edit]).split("\n")
    return lines[before.count("\n")].strip()[:longest]


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
