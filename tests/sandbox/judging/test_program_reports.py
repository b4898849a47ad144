"""What a program tells beside its verdict: why it does not compile, and how each of its tests
went.
"""

import sys

import pytest

from sandbox import registry
from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.judging.judged_run import LONGEST_CASE_DETAIL, harmless
from sandbox.judging.runners.run import run_function_tests
from schemas.run import Limits
from schemas.verdict import FailureReason, Outcome, ProgramVerdict
from tests.sandbox.programs import run_program

TESTS = """\
import unittest
class TestCases(unittest.TestCase):
    def test_case_1(self):
        self.assertEqual(f(1), 2)
    def test_case_2(self):
        self.assertEqual(f(2), 3)
    def test_case_3(self):
        self.assertEqual(f(3), 4)
"""
NAMES = ("TestCases.test_case_1", "TestCases.test_case_2", "TestCases.test_case_3")
LIMITS = Limits(cpu_s=1, wall_s=30)


def report(sandbox: BubblewrapSandbox, code: str, tests: str = TESTS) -> ProgramVerdict:
    return run_program(sandbox, "unittest", code, (tests,), LIMITS)


def outcomes(found: ProgramVerdict) -> tuple[str, ...]:
    return tuple(case.outcome.value for case in found.cases)


def test_a_program_passes_where_each_of_its_tests_passes(bubblewrap: BubblewrapSandbox):
    found = report(bubblewrap, "def f(x): return x + 1")
    assert (found.outcome, found.detail, found.compile_error, found.module_error) == (
        Outcome.PASSED,
        "",
        None,
        None,
    )
    assert tuple(case.name for case in found.cases) == NAMES
    assert set(outcomes(found)) == {"passed"}
    assert found.duration_s > 0


@pytest.mark.parametrize("name", ["bubblewrap", "zygote"])
def test_each_failing_test_has_its_traceback(name: str):
    found = run_program(
        registry.load(name), "unittest", "def f(x):\n    return 2 / (x - 2)", (TESTS,), LIMITS
    )
    assert found.outcome is Outcome.FAILED
    assert outcomes(found) == ("failed", "failed", "failed")
    assert found.cases[1].detail == (
        "Traceback (most recent call last):\n"
        '  File "<tests>", line 6, in test_case_2\n'
        "    self.assertEqual(f(2), 3)\n"
        '  File "program.py", line 2, in f\n'
        "    return 2 / (x - 2)\n"
        "           ~~^~~~~~~~~\n"
        "ZeroDivisionError: division by zero"
    )
    assert found.detail == f"TestCases.test_case_1\n{found.cases[0].detail}"


def test_tracebacks_do_not_say_where_this_machine_keeps_its_libraries(
    bubblewrap: BubblewrapSandbox,
):
    found = report(
        bubblewrap,
        (
            "import json, numpy\ndef f(x):\n    return json.loads('{') if x == 1 else "
            "numpy.linalg.inv([[0]])"
        ),
    )
    for case, file in zip(
        found.cases, ("json/decoder.py", "numpy/linalg/_linalg.py"), strict=False
    ):
        assert f'  File "{file}", line ' in case.detail
    assert sys.prefix not in found.model_dump_json()
    assert sys.base_prefix not in found.model_dump_json()


def test_a_hostile_path_is_read_once_and_not_from_each_of_its_parts():
    """Read from each part it would take hours."""
    assert harmless('File "/' + "/python3." * 300_000 + "end").endswith("/python3.end")
    assert harmless('File "/' + "/python3.11/" * 300_000 + "end") == 'File "end'


@pytest.mark.parametrize("kind", ["unittest", "statements"])
@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "def f(x:\n    return x",
            (
                "  File \"tmp.py\", line 1\n    def f(x:\n         ^\nSyntaxError: '(' was never "
                "closed"
            ),
        ),
        (
            "x = 1\n  y = 2",
            '  File "tmp.py", line 2\n    y = 2\nIndentationError: unexpected indent',
        ),
        ("x = '\0'", "SyntaxError: source code string cannot contain null bytes"),
    ],
)
def test_code_that_does_not_compile_says_so_as_the_interpreter_does(
    bubblewrap: BubblewrapSandbox, kind: str, code: str, said: str
):
    tests = TESTS if kind == "unittest" else "assert f(1) == 2"
    found = run_program(
        bubblewrap, "unittest" if kind == "unittest" else "statements", code, (tests,), LIMITS
    )
    assert found.outcome is Outcome.FAILED
    assert found.compile_error == f"Traceback (most recent call last):\n{said}"
    assert "tmp.py" not in found.detail
    assert {case.detail for case in found.cases} <= {found.module_error}


def test_a_syntax_error_that_code_raises_while_it_runs_is_none_of_its_own(
    bubblewrap: BubblewrapSandbox,
):
    found = report(bubblewrap, "def f(x): return x + 1\nexec('(')")
    assert found.compile_error is None
    assert found.module_error is not None
    assert "SyntaxError" in found.module_error
    assert {case.detail for case in found.cases} == {found.module_error}


@pytest.mark.slow
def test_a_program_that_a_limit_ends_has_timed_out_and_says_which_tests_were_not_run(
    bubblewrap: BubblewrapSandbox,
):
    found = report(bubblewrap, "def f(x):\n    while x == 2: pass\n    return x + 1")
    assert (found.outcome, found.module_error) == (Outcome.TIMEOUT, None)
    assert outcomes(found) == ("passed", "timeout", "failed")
    assert found.cases[2].detail == "was not run: an earlier test ended the program"


def test_long_details_keep_their_first_and_last_lines_and_accuse_nobody(
    bubblewrap: BubblewrapSandbox,
):
    found = report(
        bubblewrap, "def f(x):\n    raise ValueError('first' + 'x' * 100_000 + '\\nlast')"
    )
    assert found.reason is None
    for case in found.cases:
        assert len(case.detail) <= LONGEST_CASE_DETAIL
        assert case.detail.startswith('Traceback (most recent call last):\n  File "<tests>"')
        assert "ValueError: firstxxx" in case.detail
        assert "\n...\n" in case.detail
        assert case.detail.endswith("xxx\nlast")


def test_a_write_into_the_channel_fails_all_tests_as_tampering(bubblewrap: BubblewrapSandbox):
    code = "import os\ndef f(x):\n    for n in range(3, 30):\n"
    code += "        try: os.write(n, bytes(7) + b'2' + bytes(50))\n        except OSError: pass"
    found = report(bubblewrap, code)
    assert (found.outcome, found.reason) == (Outcome.FAILED, FailureReason.TAMPERING)
    assert all(case.detail.startswith("tampering") for case in found.cases)


@pytest.mark.slow
def test_statements_have_the_verdict_that_they_always_had(bubblewrap: BubblewrapSandbox):
    code, tests = "def f(): return 2", ("x = f()", "assert x == 1")
    found, alone = (
        run_program(bubblewrap, "statements", code, tests, LIMITS),
        run_function_tests(bubblewrap, code, tests, LIMITS),
    )
    assert (found.outcome, found.detail, found.reason) == (
        alone.outcome,
        alone.detail,
        alone.reason,
    )
    assert found.cases == ()


def test_a_module_without_tests_is_refused(bubblewrap: BubblewrapSandbox):
    with pytest.raises(ValueError, match=r"no class of unittest\.TestCase"):
        report(bubblewrap, "x = 1", "def test_case_1(): pass")
