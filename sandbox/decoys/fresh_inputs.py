"""Checks with other inputs than the tests', whose expected values come from the reference.

An answer that returns constants of the tests fails these checks.
"""

import ast
import builtins
import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from sandbox.decoys.edits import spliced
from sandbox.decoys.expected import other_text
from sandbox.decoys.python_syntax import Text, bound_by_tests
from sandbox.decoys.trial import Trial, texts_of, unit_names, with_texts
from sandbox.judging.runners.programs import AssertProgram, PythonProgram, UnittestProgram, parse

_REPORTING = "(_ for _ in ()).throw(AssertionError({}))"
"""Expression that raises an AssertionError with a text, so that the test's failure reports the
text.
"""
_MAX_VALUES = 4096


@dataclass(frozen=True)
class FreshCheck:
    """Check `call == literal` of a test, with another input."""

    text: int
    """Index of the test's text among the program's texts."""
    unit: str
    check: tuple[int, int]
    """Byte offsets of the whole comparison."""
    call: str
    """Source of the call with another input."""


def fresh_checks(program: PythonProgram) -> list[FreshCheck]:
    """Return the checks of a program that can be made with another input.

    Equal tests always get equal inputs.
    """
    if isinstance(program, UnittestProgram):
        return []
    names = unit_names(program)
    checks: list[FreshCheck] = []
    for n, text in enumerate(texts_of(program)):
        unit = names[n] if isinstance(program, AssertProgram) else names[0]
        checks += [
            FreshCheck(n, unit, check, call) for check, call in _calls_with_other_inputs(text)
        ]
    return checks


def with_fresh_input(program: PythonProgram, fresh: FreshCheck, expected: str) -> PythonProgram:
    """Return the program whose test uses the other input and expects this value."""
    return _replaced(program, fresh, f"{fresh.call} == {expected}")


def expected_value(trial: Trial, reference: PythonProgram, fresh: FreshCheck) -> str | None:
    """Return the value that the reference has for the other input, as Python source.

    None if the value is not a literal.
    """
    asking = _replaced(reference, fresh, _REPORTING.format(f"repr({fresh.call})"))
    key = (trial.sandbox.name, asking)
    if key not in _values:
        if len(_values) >= _MAX_VALUES:
            _values.clear()
        _values[key] = _literal(trial.detail(asking, fresh.unit))
    return _values[key]


_values: dict[tuple[str, PythonProgram], str | None] = {}
"""Cache of the references' values, as Python source, by (sandbox, program that reports it).

A value is None if it is not a literal.
"""


def _literal(detail: str) -> str | None:
    source = detail.strip().rpartition("AssertionError: ")[2]
    try:
        value = ast.literal_eval(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return source if value == value else None


def _replaced(program: PythonProgram, fresh: FreshCheck, source: str) -> PythonProgram:
    texts = list(texts_of(program))
    texts[fresh.text] = spliced(texts[fresh.text], *fresh.check, source)
    return with_texts(program, texts)


@functools.lru_cache(maxsize=_MAX_VALUES)
def _calls_with_other_inputs(source: str) -> tuple[tuple[tuple[int, int], str], ...]:
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    text, of_tests, draw = Text(source), set(bound_by_tests(tree)), random.Random(source)
    return tuple(
        (text.span(check), ast.unparse(_other_call(call, draw)))
        for check, call in _checks(tree.body)
        if isinstance(call.func, ast.Name)
        and call.func.id not in of_tests
        and not hasattr(builtins, call.func.id)
        if call.args and not call.keywords and all(_is_literal(argument) for argument in call.args)
    )


def _checks(body: list[ast.stmt]) -> Iterator[tuple[ast.Compare, ast.Call]]:
    """Yield the checks `call == literal` that every run executes."""
    for node in body:
        match node:
            case ast.Assert(
                test=ast.Compare(
                    left=ast.Call() as call, ops=[ast.Eq()], comparators=[value]
                ) as check
            ):
                if _is_literal(value):
                    yield check, call
            case ast.FunctionDef(name="check"):
                yield from _checks(node.body)
            case _:
                pass


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return False
    return True


def _other_call(call: ast.Call, draw: random.Random) -> ast.Call:
    """Return the call with one number of its input increased by one, or one text of it altered."""
    other = ast.Call(
        call.func, [ast.parse(ast.unparse(part), mode="eval").body for part in call.args], []
    )
    leaves = [
        part
        for part in ast.walk(other)
        if isinstance(part, ast.Constant) and type(part.value) in (int, float, str)
    ]
    if leaves:
        leaf = draw.choice(leaves)
        leaf.value = (
            other_text(leaf.value, draw) if isinstance(leaf.value, str) else _next(leaf.value)
        )
    return other


def _next(value: object) -> int | float:
    assert isinstance(value, int | float)
    return value + 1
