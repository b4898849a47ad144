"""Search for the constants that a check expects, as opposed to inputs of the code under test."""

import ast
import builtins
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
        """Return the constants that are not inputs of code under test.

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
