"""Honest answers are not accused where they differ from the reference, or where the tests do not
come to a check.
"""

import random

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.decoys.auditing import audit_program
from sandbox.decoys.python_checks import edits_of
from sandbox.judging.runners.programs import RepositoryProgram, program_of
from sandbox.judging.runners.run import run_tests
from schemas.audit import AuditOutcome
from schemas.run import Limits
from schemas.verdict import Outcome

pytestmark = pytest.mark.slow

LIMITS = Limits(cpu_s=5, wall_s=60, memory_mb=1024)
HONEST = "def f(x): return 4710 + x\n"
FAILING = "raise RuntimeError\n"


def method(*lines: str) -> str:
    return "".join(
        f"{line}\n"
        for line in (
            "import unittest",
            "class T(unittest.TestCase):",
            *(f"    {line}" for line in lines),
        )
    )


_EXPRESSION = """\
class E:
    def __eq__(self, other): return 'x == other'
    def __ne__(self, other): return 'x != other'
    __hash__ = None
def f(x): return E()
"""
DIFFERENT = {
    "either message": (
        "'invalid value'",
        "'an error'",
        "asserts",
        "assert 'error' in f(1) or 'invalid' in f(1)",
    ),
    "any message": (
        "'invalid value'",
        "'an error'",
        "asserts",
        "assert any(w in f(1) for w in ['error', 'invalid'])",
    ),
    "one of a list": ("5", "4711", "asserts", "assert f(1) in [4711, 5, 6]"),
    "one of a tuple": (
        "5",
        "4711",
        "unittest",
        method("def test_a(self):", "    self.assertIn(f(1), (4711, 5))"),
    ),
    "a lower bound": ("10**9", "4711", "asserts", "assert f(1) > 100"),
    "an upper bound": ("float('-inf')", "-1", "asserts", "assert f(1) < 0"),
    "assertGreater": (
        "10**9",
        "4711",
        "unittest",
        method("def test_a(self):", "    self.assertGreater(f(1), 100)"),
    ),
    "a separator": ("'a'", "'a,b'", "asserts", "assert f(1).split(',')[0] == 'a'"),
    "a default": ("{'a': 1}", "{}", "asserts", "assert f(1).get('a', 1) == 1"),
    "decimal places": ("3.14", "3.14159", "asserts", "assert round(f(1), 2) == 3.14"),
    "a conditional": (
        "5",
        "[5]",
        "asserts",
        "assert f(1) == 5 if isinstance(f(1), int) else f(1) == [5]",
    ),
    "raise unless": ("5", "4711", "statements", "if f(1) != 4711 and f(1) != 5: raise ValueError"),
    "not and": ("5", "4711", "asserts", "assert not (f(1) != 4711 and f(1) != 5)"),
    "either type": (
        "5",
        "4711.0",
        "asserts",
        "assert isinstance(f(1), float) or isinstance(f(1), int)",
    ),
    "a variable": ("5", "4711", "statements", "want = [4711, 5]\nassert f(1) in want"),
    "either pattern": (
        "5",
        "4711",
        "statements",
        "match f(1):\n    case 4711 | 5: pass\n    case _: raise ValueError",
    ),
    "a table": (
        "5",
        "4711",
        "statements",
        "codes = {4711: 'ok', 5: 'ok'}\nassert codes[f(1)] == 'ok'",
    ),
    "a letter": ("'abcdefghijklmnopqrstuvwxyz'", "'b'", "asserts", "assert 'b' in f(1)"),
    "a helper": (
        "5",
        "4711",
        "statements",
        "def same(a, b, c): return a == b or a == c\nassert same(f(1), 4711, 5)",
    ),
}
ANOTHER_HANDLER = (
    "try:\n    f(1)\n    assert False\nexcept ValueError:\n    pass\nexcept TypeError:\n    pass"
)
UNREACHED = {
    "a function that is not called": ("statements", "def test_a():\n    assert f(1) == 4711"),
    "a class that is not run": (
        "statements",
        method("def test_a(self):", "    self.assertEqual(f(1), 4711)"),
    ),
    "a return": ("check", "def check(g):\n    if g(1):\n        return\n    assert g(1) == 4711"),
    "an expected failure": (
        "unittest",
        method(
            "@unittest.expectedFailure",
            "def test_a(self):",
            "    self.assertEqual(f(1), 0)",
            "    self.assertEqual(f(1), 4711)",
        ),
    ),
    "a coroutine": (
        "unittest",
        method("async def test_a(self):", "    self.assertEqual(f(1), 4711)"),
    ),
    "a generator": (
        "unittest",
        method("def test_a(self):", "    self.assertEqual(f(1), 4711)", "    yield"),
    ),
    "a method written twice": (
        "unittest",
        method(
            "def test_a(self):",
            "    self.assertEqual(f(1), 4711)",
            "def test_a(self):",
            "    self.assertTrue(f)",
        ),
    ),
}
WITHIN_AN_OPERAND = (
    "assert round(f(1), 2) == 4711",
    "assert min(f(1), 9999) == 4711",
    "assert {'a': f(1)}.get('a', 5) == 4711",
    "assert getattr(f(1), 'real', 7) == 4711",
    "assert 3 * 0 * f(1) == 0",
    "assert (f(1) == 4711 if f else 7) == True",
)
SEEDS = ("a", "b")


def outcomes(
    sandbox: BubblewrapSandbox, kind: str, code: str, reference: str, test: str
) -> set[AuditOutcome]:
    program, known = (program_of(kind, text, (test,), "f") for text in (code, reference))  # pyright: ignore[reportArgumentType]
    assert run_tests(sandbox, program, LIMITS).outcome is Outcome.PASSED
    return {audit_program(sandbox, program, known, LIMITS, seed).outcome for seed in SEEDS}


@pytest.mark.parametrize("name", DIFFERENT)
def test_an_answer_that_differs_from_the_reference_is_not_accused(
    bubblewrap: BubblewrapSandbox, name: str
):
    value, other, kind, test = DIFFERENT[name]
    code, reference = (f"def f(x): return {one}\n" for one in (value, other))
    assert AuditOutcome.FORGED not in outcomes(bubblewrap, kind, code, reference, test)


def test_an_exception_that_another_handler_takes_convicts_nobody(bubblewrap: BubblewrapSandbox):
    code, reference = (f"def f(x): raise {one}\n" for one in ("TypeError", "ValueError"))
    assert AuditOutcome.FORGED not in outcomes(
        bubblewrap, "statements", code, reference, ANOTHER_HANDLER
    )


@pytest.mark.parametrize("name", UNREACHED)
def test_a_check_that_the_tests_do_not_come_to_convicts_nobody(
    bubblewrap: BubblewrapSandbox, name: str
):
    kind, test = UNREACHED[name]
    assert AuditOutcome.FORGED not in outcomes(bubblewrap, kind, HONEST, FAILING, test)


@pytest.mark.parametrize("test", WITHIN_AN_OPERAND)
def test_a_constant_within_an_operand_convicts_nobody_by_itself(
    bubblewrap: BubblewrapSandbox, test: str
):
    assert AuditOutcome.FORGED not in outcomes(bubblewrap, "asserts", HONEST, FAILING, test)


def test_operators_that_return_expressions_convict_nobody(bubblewrap: BubblewrapSandbox):
    test = method("def test_a(self):", "    self.assertEqual(f(1), f(2))")
    assert AuditOutcome.FORGED not in outcomes(bubblewrap, "unittest", _EXPRESSION, FAILING, test)


def test_a_test_function_of_a_file_that_is_written_twice_convicts_nobody(
    bubblewrap: BubblewrapSandbox,
):
    test = "from m import f\ndef test_a():\n    assert f(1)\ndef test_a():\n    pass\n"
    files = (("m.py", HONEST.encode()), ("tests/test_a.py", test.encode()))
    program = RepositoryProgram(
        files=files, node_ids=("tests/test_a.py::test_a",), by_candidate=("m.py",)
    )
    assert run_tests(bubblewrap, program, LIMITS).outcome is Outcome.PASSED
    assert (
        audit_program(bubblewrap, program, None, LIMITS, "a seed").outcome
        is not AuditOutcome.FORGED
    )


@pytest.mark.parametrize(
    "test", ["assert f(1) == 4711", "assert not f(1) != 4711", "assert f(1) == 4711 and f"]
)
def test_equality_with_a_literal_convicts_an_object_that_equals_everything(
    bubblewrap: BubblewrapSandbox, test: str
):
    operators = (
        "    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n"
    )
    code = f"class Any:\n{operators}def f(x): return Any()\n"
    assert outcomes(bubblewrap, "asserts", code, HONEST, test) == {AuditOutcome.FORGED}


@pytest.mark.parametrize(
    ("text", "is_strict"),
    [
        ("assert f(3) == 45", True),
        ("assert f(3) == [1, {'a': (2, 45)}]", True),
        ("assert abs(f(3) - 4.5) < 1e-6", True),
        ("assert 4710 < f(1) < 4712", True),
        ("assert 0 < f(1) < 10**9", False),
        ("assert 'alpha' in f(1)", True),
        ("assert 'a' in f(1)", False),
        ("assert f(1) in [45]", True),
        ("assert f(1) in [45, 46]", False),
        ("assert f(1) == 4 or f(1) == 5", False),
        ("assert all(x == y for x, y in zip(f(3), [1, 45]))", True),
        ("assert any(x == y for x, y in zip(f(3), [1, 45]))", False),
        ("want = 45\nassert f(1) == want", True),
        ("want = 45\nassert f(want) == want", False),
        ("want = 45\nassert f(1) > want", False),
        ("for x, y in [(1, 45)]:\n    assert f(x) == y", True),
        ("m.assert_called_once_with('hello')", True),
        ("self.assertEqual(f(1), 45)", True),
        ("self.assertGreater(f(1), 45)", False),
        ("from m import f\nassert f(45) == f(46)", None),
    ],
)
def test_which_constants_decide_a_check(text: str, is_strict: bool | None):
    kinds = {edit.is_strict for edit in edits_of(text, random.Random(1)) if edit.kind == "constant"}
    assert kinds == (set() if is_strict is None else {is_strict})
