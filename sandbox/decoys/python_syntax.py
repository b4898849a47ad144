"""Names of assertions and their opposites, and queries of the syntax tree of a test's text."""

import ast
import builtins
import sys
from collections.abc import Callable, Iterator
from functools import cached_property

OPPOSITES = {
    "assertTrue": "assertFalse",
    "assertEqual": "assertNotEqual",
    "assertIn": "assertNotIn",
    "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone",
    "assertIsInstance": "assertNotIsInstance",
    "assertAlmostEqual": "assertNotAlmostEqual",
    "assertRegex": "assertNotRegex",
    "assert_called": "assert_not_called",
    "assertGreater": "assertLessEqual",
    "assertLess": "assertGreaterEqual",
}
OPPOSITES |= {right: left for left, right in OPPOSITES.items()}
OPPOSITES["assert_called_once"] = "assert_not_called"
_OF_ONE_TYPE = ("List", "Dict", "Tuple", "Set", "MultiLine")
OPPOSITES |= {f"assert{kind}Equal": "assertNotEqual" for kind in _OF_ONE_TYPE}
OF_ONE = ("assertTrue", "assertFalse", "assertIsNone", "assertIsNotNone")
"""Assertions with one operand and an optional message. Other assertions of unittest have two
operands.
"""
RAISING = ("assertRaises", "assertRaisesRegex", "raises", "assertWarns")
UNRELATED = ("StopAsyncIteration", "BlockingIOError", "ChildProcessError")
"""Exceptions that code under test does not raise."""
STRICT = (
    "assertIn",
    "assertNotIn",
    "assertIs",
    "assertIsNot",
    "assertTrue",
    "assertFalse",
    "assertIsNone",
    "assertIsNotNone",
)
STRICT += ("assertIsInstance", "assertNotIsInstance", "assertRegex", "assertNotRegex")
STRICT += ("assert_called", "assert_not_called", "assert_called_once")
"""Assertions whose opposite is their logical negation. The others use two operators, such as `==`
and `!=`. An honest class may define both so that they return an expression, which is true."""


_LIBRARIES = sys.stdlib_module_names | {
    "numpy",
    "pandas",
    "scipy",
    "sympy",
    "pytest",
    "mock",
    "attr",
    "attrs",
}
"""Modules that are not code under test."""


def bound_by_tests(tree: ast.Module) -> Iterator[str]:
    """Yield the names that the tests bind: imports, functions and classes.

    The imports are those of libraries and test helpers.
    """
    yield from _imported(
        tree, lambda module: module.partition(".")[0] in _LIBRARIES or _is_of_tests(module)
    )
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    yield from (node.name for node in ast.walk(tree) if isinstance(node, definitions))
    yield "self"


def constructors(tree: ast.Module) -> Iterator[str]:
    """Yield the names of imported libraries, and of classes that the tests define.

    A constructor with one of these names contains no code under test.
    """
    yield from _imported(tree, lambda module: module.partition(".")[0] in _LIBRARIES)
    yield from (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def _is_of_tests(module: str) -> bool:
    return any(part.startswith("test") or part == "conftest" for part in module.split("."))


def _imported(tree: ast.Module, is_wanted: Callable[[str], bool]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                item.asname or item.name.partition(".")[0]
                for item in node.names
                if is_wanted(item.name)
            )
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and is_wanted(node.module or ""):
            yield from (item.asname or item.name for item in node.names)


def assigned(tree: ast.Module) -> Iterator[str]:
    """Yield the names that the tests assign."""
    return (
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


def checked(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the expressions that checks compare, without the inputs of code under test."""
    for node in ast.walk(tree):
        match node:
            case ast.Assert():
                yield node.test
            case ast.Expr(value=ast.Call() as call) if last_name(call).startswith("assert"):
                yield from call.args[:2]
            case ast.If() if node.body and isinstance(node.body[0], ast.Raise):
                yield node.test
            case _:
                pass


def names(node: ast.AST) -> Iterator[str]:
    """Yield the names that an expression compares.

    Names in arguments of calls are omitted, except in calls of built-ins and modules.
    """
    if isinstance(node, ast.Name):
        yield node.id
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and not hasattr(builtins, node.func.id)
    ):
        return
    else:
        for child in ast.iter_child_nodes(node):
            yield from names(child)


def says_failure(node: ast.stmt) -> bool:
    """Return True if a statement reports that an expected exception was not raised."""
    match node:
        case ast.Assert(test=ast.Constant(value=False | 0)) | ast.Raise():
            return True
        case ast.Expr(value=ast.Call() as call):
            return last_name(call) == "fail"
        case _:
            return False


def may_leave(node: ast.stmt) -> bool:
    """Return True if the code after a statement may not be reached.

    The statement may return, skip the test, or end the process.
    """
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    if isinstance(node, ast.Return | ast.Break | ast.Continue):
        return True
    if isinstance(node, ast.Expr) and last_name(node.value) in (
        "skipTest",
        "skip",
        "importorskip",
        "xfail",
        "exit",
        "_exit",
    ):
        return True
    if isinstance(node, ast.For | ast.AsyncFor | ast.While):
        return any(
            may_leave(inner)
            for inner in _below(node)
            if not isinstance(inner, ast.Break | ast.Continue)
        )
    return any(may_leave(inner) for inner in _below(node))


def _below(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements directly within a statement."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.excepthandler | ast.match_case):
            yield from _below(child)


def last_name(node: ast.expr) -> str:
    """Return the last name of a dotted expression or of a call's function; empty without one."""
    match node:
        case ast.Call():
            return last_name(node.func)
        case ast.Attribute():
            return node.attr
        case ast.Name():
            return node.id
        case _:
            return ""


def root(node: ast.expr) -> str:
    """Return the first name of a dotted expression; empty without one."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def expressions(node: ast.stmt) -> Iterator[ast.AST]:
    """Yield the expressions of a statement, without those of its inner statements."""
    unseen = [
        child
        for child in ast.iter_child_nodes(node)
        if not isinstance(child, ast.stmt | ast.excepthandler)
    ]
    while unseen:
        expression = unseen.pop()
        if not isinstance(expression, ast.JoinedStr):
            yield expression
            unseen.extend(ast.iter_child_nodes(expression))


def is_tolerance(node: ast.expr) -> bool:
    """Return True if a constant is a tolerance for floating-point numbers."""
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, float)
        and 0 < abs(node.value) < 0.01
    )


def filled(node: ast.expr) -> str:
    """Return the source of a container with one element, to replace an empty container."""
    return {ast.List: "[1049]", ast.Tuple: "(1049,)"}.get(type(node), "{1049: 1049}")


def operands_of(node: ast.expr | None) -> list[ast.expr]:
    """Return the operands of a comparison; for another expression, nothing.

    Only a constant that is itself an operand may be replaced by a value of another type (a type
    probe), not a constant nested in an operand.
    """
    return [node.left, *node.comparators] if isinstance(node, ast.Compare) else []


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
