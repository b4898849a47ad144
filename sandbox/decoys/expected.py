"""Search for the constants that a check expects, and replacements for these constants.

Inputs of the code under test are not expected constants. A replacement has the type of the expected
constant, looks plausible, and is too different to be accepted because of a tolerance or a
remainder.
"""

import ast
import builtins
import json
import random
import string
from dataclasses import dataclass

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
