"""Finds the constants of an expression that a check compares with, and leaves out what code under test is given."""

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
"""Keywords of assertions that are no expectation."""
_OF_VALUES = frozenset(
    name
    for kind in (str, bytes, list, dict, set, tuple)
    for name in dir(kind)
    if not name.startswith("_")
)
_OF_VALUES |= {"equals", "item", "tolist", "all", "any"}
"""Methods of results: their arguments are expectations, where arguments of code under test are its input."""


@dataclass
class Expected:
    """Finds expected constants in the expressions of one text."""

    of_tests: frozenset[str]
    """Names of modules that the tests import, and of functions and classes that they define."""
    is_turned: bool = False
    """Whether the present check fails where its expression is true."""

    def of(
        self, node: ast.expr, *, below: bool = False
    ) -> list[tuple[ast.Constant | ast.expr, bool]]:
        """List the constants that code under test is not given, each with whether a smaller one misses the check."""
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
                return [one for part in parts for one in self.of(part, below=below)]

    def _of_comparison(self, node: ast.Compare) -> list[tuple[ast.Constant | ast.expr, bool]]:
        """Bounds are moved past what they bound. A value that differs from one constant differs from others, too."""
        sides = [node.left, *node.comparators]
        kinds = [*node.ops, *node.ops[-1:]]
        found: list[tuple[ast.Constant | ast.expr, bool]] = []
        skipped = (ast.Eq, ast.In, ast.Is) if self.is_turned else (ast.NotEq, ast.NotIn, ast.IsNot)
        for n, side in enumerate(sides):
            op = kinds[n] if n == 0 else node.ops[n - 1]
            if not isinstance(op, skipped):
                found += self.of(
                    side, below=isinstance(op, (ast.Gt, ast.GtE) if n == 0 else (ast.Lt, ast.LtE))
                )
        return found

    def _of_call(self, node: ast.Call) -> list[tuple[ast.Constant | ast.expr, bool]]:
        first = root(node.func)
        is_method = isinstance(node.func, ast.Attribute) and first not in self.of_tests
        found = self.of(node.func.value) if isinstance(node.func, ast.Attribute) else []
        if is_method and last_name(node) not in _OF_VALUES:
            return found
        if (
            not is_method
            and isinstance(node.func, ast.Name)
            and not (first in self.of_tests or hasattr(builtins, first))
        ):
            return found
        given = [*node.args, *(one.value for one in node.keywords if one.arg not in SETTINGS)]
        return found + [one for argument in given for one in self.of(argument)]
