"""Conversion of asserts and HumanEval's `check(candidate)` to a module with one unittest class."""

import ast
from collections.abc import Sequence

from sandbox.judging.python_syntax import parse

_HEAD = "import unittest"


def module_of_asserts(statements: Sequence[str], setup: str = "") -> str:
    """Return a module with one test method for each text of statements.

    Args:
        statements: Texts of test statements.
        setup: Statements of the module, before the class.

    Raises:
        SyntaxError: A text is not Python.
        ValueError: A text cannot be parsed, or there is no test.
    """
    return _module(parse(setup).body, [parse(text).body for text in statements])


def module_of_check(test: str, entry_point: str) -> str:
    """Convert a module that defines `check(candidate)` to a unittest class for `entry_point`.

    Raises:
        SyntaxError: The test is not Python.
        ValueError: The test cannot be parsed, or defines no `check` with one argument.
    """
    body = parse(test).body
    check = next(
        (node for node in body if isinstance(node, ast.FunctionDef) and node.name == "check"), None
    )
    if check is None or len(check.args.args) != 1:
        raise ValueError("the test defines no check(candidate)")
    asserts = [node for node in check.body if not _is_text(node)]
    if not all(isinstance(node, ast.Assert) for node in asserts):
        return _module(body, [parse(f"check({entry_point})").body])
    renamed = _Renamed(check.args.args[0].arg, entry_point)
    return _module(
        [node for node in body if node is not check], [[renamed.visit(node)] for node in asserts]
    )


def _module(setup: Sequence[ast.stmt], cases: Sequence[list[ast.stmt]]) -> str:
    bodies = [
        statements for statements in cases if not all(_is_always_true(node) for node in statements)
    ]
    if not bodies:
        raise ValueError("there is no test")
    methods = [_method(number, statements) for number, statements in enumerate(bodies, 1)]
    tests = ast.ClassDef(
        "TestCases",
        [ast.Attribute(ast.Name("unittest", ast.Load()), "TestCase", ast.Load())],
        [],
        methods,
        [],
    )
    imports = parse(_HEAD).body
    return ast.unparse(ast.fix_missing_locations(ast.Module([*imports, *setup, tests], []))) + "\n"


def _method(number: int, statements: list[ast.stmt]) -> ast.stmt:
    method = parse(f"def test_case_{number}(self): pass").body[0]
    assert isinstance(method, ast.FunctionDef)
    method.body = [_with_values(node) for node in statements]
    return method


def _with_values(node: ast.stmt) -> ast.stmt:
    """Return `assert a == b` as `self.assertEqual(a, b)`, whose failure shows both values.

    Other statements are returned unchanged.
    """
    if not isinstance(node, ast.Assert) or not isinstance(node.test, ast.Compare):
        return node
    compared = node.test
    if len(compared.ops) != 1 or not isinstance(compared.ops[0], ast.Eq):
        return node
    message = [node.msg] if node.msg else []
    assert_equal = ast.Attribute(ast.Name("self", ast.Load()), "assertEqual", ast.Load())
    return ast.Expr(ast.Call(assert_equal, [compared.left, *compared.comparators, *message], []))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_always_true(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Assert)
        and isinstance(node.test, ast.Constant)
        and bool(node.test.value)
    )


class _Renamed(ast.NodeTransformer):
    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._new, node.ctx) if node.id == self._old else node
