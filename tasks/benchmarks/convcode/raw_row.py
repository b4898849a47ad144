"""Common form of a problem (BigCodeBench-Instruct) and conversion of the published rows.

BigCodeBench has this form. Rows of HumanEval, MBPP and MINT's subsets of them have a function, its
docstring and asserts.
"""

import ast
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from sandbox.judging.runners.programs import parse
from sandbox.judging.runners.python_tests import method_names
from schemas.base import Frozen
from tasks.benchmarks.raw_rows import BadRow, RawModel, Text, validated


class Task(Frozen):
    """Problem in the common form, with only those fields that affect episodes or verdicts."""

    task_id: str
    instruct_prompt: str
    gold: str
    """Reference program, including its imports."""
    test: str
    """Module of unittest.TestCase classes that runs after the answer's code in the same module."""
    libs: tuple[str, ...] = ()
    """Import names of the modules that the task uses."""


def _as_names(libs: Any) -> Any:
    """Parse a list of names, which the published files store as text."""
    if not isinstance(libs, str):
        return libs
    try:
        return ast.literal_eval(libs)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise PydanticCustomError(
            "not_a_list", "neither a list of names nor the text of one"
        ) from None


class BigCodeBenchRow(RawModel):
    """Row as published, without `complete_prompt`, `entry_point` and `doc_struct`."""

    task_id: Text
    instruct_prompt: Text
    code_prompt: Text
    canonical_solution: Text
    test: Text
    libs: Annotated[list[Text], BeforeValidator(_as_names)] = Field(default_factory=list)


COLUMNS = tuple(BigCodeBenchRow.model_fields)


def bigcodebench_task(raw: dict[str, Any]) -> Task:
    """Return a published row as a task.

    Raises:
        BadRow: missing_field, wrong_type or blank_text.
    """
    row = validated(BigCodeBenchRow, raw)
    return Task(
        task_id=row.task_id,
        instruct_prompt=row.instruct_prompt,
        gold=joined(row.code_prompt, row.canonical_solution),
        test=row.test,
        libs=tuple(row.libs),
    )


def joined(head: str, body: str) -> str:
    """Return a function's head and body on separate lines."""
    return head + body if head.endswith("\n") or body.startswith("\n") else f"{head}\n{body}"


def require_tests(task: Task) -> Task:
    """Return the task if its tests can be run.

    Raises:
        BadRow: bad_tests, if the text is not Python or has no test method.
    """
    try:
        method_names(task.test)
    except (ValueError, MemoryError) as fault:
        raise BadRow("bad_tests", f"test: {fault}") from None
    return task


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
    return _unittest_module(parse(setup).body, [parse(text).body for text in statements])


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
        return _unittest_module(body, [parse(f"check({entry_point})").body])
    renamed = _Renamed(check.args.args[0].arg, entry_point)
    return _unittest_module(
        [node for node in body if node is not check], [[renamed.visit(node)] for node in asserts]
    )


def _unittest_module(setup: Sequence[ast.stmt], cases: Sequence[list[ast.stmt]]) -> str:
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


COMPLETE = (
    "Complete the Python function `{entry_point}` so that it does what its docstring says."
    " Answer with self-contained code:"
    " repeat the lines given here, imports and other functions included.\n"
    "```python\n{prompt}\n```\n"
)
WRITE = (
    "Write the Python function that this text asks for; its name and arguments are those of the"
    " statement in it, which must hold."
    " Answer with self-contained code, imports included.\n```python\n{prompt}\n```\n"
)


def _identifier(name: str) -> str:
    if not name.isidentifier():
        raise PydanticCustomError("not_a_name", "not the name of a function")
    return name


class CheckRow(RawModel):
    """Row in HumanEval's form, which MBXP's MBPP and MINT's HumanEval share."""

    task_id: Text
    prompt: Text
    canonical_solution: Text
    entry_point: Annotated[str, AfterValidator(_identifier)]
    test: Text
    language: str | None = None


class AssertsRow(RawModel):
    """Row in MBPP's original form, which MINT's MBPP shares. MINT adds a prompt."""

    task_id: int = Field(ge=0)
    text: Text
    code: Text
    test_list: list[Text] = Field(min_length=1)
    test_setup_code: str = ""
    prompt: Text | None = None


def function_task(raw: dict[str, Any]) -> Task:
    """Return a row of either form as a task.

    Raises:
        BadRow: missing_field, wrong_type, blank_text, other_language or bad_tests.
    """
    return (
        _from_asserts(validated(AssertsRow, raw))
        if "test_list" in raw
        else _from_check(validated(CheckRow, raw))
    )


def _from_check(row: CheckRow) -> Task:
    if row.language not in (None, "python"):
        raise BadRow("other_language", f"language: {row.language!r}, but only Python is supported")
    return Task(
        task_id=row.task_id,
        instruct_prompt=COMPLETE.format(entry_point=row.entry_point, prompt=row.prompt.strip("\n")),
        gold=joined(row.prompt, row.canonical_solution),
        test=_module(lambda: module_of_check(row.test, row.entry_point)),
    )


def _from_asserts(row: AssertsRow) -> Task:
    prompt = row.prompt or f'"""\n{row.text}\n{row.test_list[0]}\n"""'
    return Task(
        task_id=f"MBPP/{row.task_id}",
        instruct_prompt=WRITE.format(prompt=prompt.strip("\n")),
        gold=row.code,
        test=_module(lambda: module_of_asserts(row.test_list, row.test_setup_code)),
    )


def _module(write: Callable[[], str]) -> str:
    try:
        return write()
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        raise BadRow(
            "bad_tests",
            f"the tests cannot be converted to a unittest class: {fault or type(fault).__name__}",
        ) from None
