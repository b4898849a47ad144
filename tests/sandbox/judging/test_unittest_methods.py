"""Test methods of unittest that are not plain: awaited ones, expected failures, those that assign what is not theirs."""

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.judging.runners.programs import UnittestProgram
from sandbox.judging.runners.run import run_tests
from sandbox.judging.runners.unittest_tests import expected_failures
from schemas.run import Limits
from schemas.verdict import FailureReason, Outcome, ProgramVerdict

pytestmark = pytest.mark.slow

CASES = """
import unittest, time, os
class Awaited(unittest.IsolatedAsyncioTestCase):
    async def test_right(self): self.assertEqual(f(1), 1)
    async def test_wrong(self): self.assertEqual(f(1), 2)
class Plain(unittest.TestCase):
    @unittest.expectedFailure
    def test_known_wrong(self): self.assertEqual(f(1), 2)
    @unittest.expectedFailure
    def test_right_after_all(self): self.assertEqual(f(1), 1)
    def test_assigns(self):
        time.sleep, os.getlogin = lambda s: None, lambda: 'me'
        time.sleep(60)
        self.assertEqual(f(1), 1)
    def test_after_it(self): self.assertEqual(f(2), 2)
    async def test_never_awaited(self): self.assertEqual(f(1), 1)
"""


def judged(sandbox: BubblewrapSandbox, code: str) -> ProgramVerdict:
    return run_tests(sandbox, UnittestProgram(code=code, test=CASES), Limits(cpu_s=10, wall_s=60))


def outcomes(found: ProgramVerdict) -> dict[str, str]:
    return {case.name: case.outcome.value for case in found.cases}


def test_unittest_s_odder_methods(bubblewrap: BubblewrapSandbox):
    found = judged(bubblewrap, "import time\ndef f(x): return x")
    expected = {
        "Awaited.test_right": "passed",
        "Awaited.test_wrong": "failed",
        "Plain.test_known_wrong": "passed",
        "Plain.test_right_after_all": "failed",
        "Plain.test_assigns": "passed",
        "Plain.test_after_it": "passed",
        "Plain.test_never_awaited": "failed",
    }
    assert outcomes(found) == expected
    assert {case.name: case.detail for case in found.cases}["Plain.test_never_awaited"].endswith("did not run to its end")


@pytest.mark.parametrize("awaited", ["False", "getattr(g, '__name__', '').startswith('async')"])
def test_no_coroutine_passes_unawaited(bubblewrap: BubblewrapSandbox, awaited: str):
    code = f"import asyncio, inspect\ndef f(x): return 0\ninspect.iscoroutinefunction = lambda g: {awaited}"
    found = outcomes(judged(bubblewrap, code))
    assert {found[name] for name in ("Awaited.test_right", "Awaited.test_wrong")} == {"failed"}


def test_an_assignment_that_the_tests_do_not_make_is_tampering(bubblewrap: BubblewrapSandbox):
    code = "import time\ndef f(x):\n    time.time = time.sleep = lambda *a: None\n    return x"
    found = judged(bubblewrap, code)
    assert (found.outcome, found.reason) == (Outcome.FAILED, FailureReason.TAMPERING)
    assert set(outcomes(found).values()) == {"failed"}


def test_a_late_import_understands_signatures_that_an_early_one_made(bubblewrap: BubblewrapSandbox):
    code = "import inspect\ndef g(): pass\ng.__signature__ = inspect.signature(len)\n"
    code += "def f(x):\n    from inspect import signature\n    return x if len(signature(g).parameters) == 1 else 0"
    assert outcomes(judged(bubblewrap, code))["Plain.test_after_it"] == "passed"


@pytest.mark.parametrize(
    "code",
    [
        "def f(x):\n    for n, g in vars(globals()['Plain']).items():\n"
        "        if n.startswith('test'): g.__unittest_expecting_failure__ = True\n    return 0",
        "def f(x):\n    globals()['Plain'].__unittest_expecting_failure__ = True\n    return 0",
        "def f(x): return 0\nimport sys\nunittest = sys.modules.get('unittest') or __import__('unittest')\n"
        "for kind in object.__subclasses__():\n"
        "    if kind.__name__ == 'TestCase': kind.__unittest_expecting_failure__ = True",
    ],
)
def test_no_failure_is_expected_because_the_code_says_so(bubblewrap: BubblewrapSandbox, code: str):
    found = outcomes(judged(bubblewrap, code))
    assert {found[name] for name in ("Plain.test_assigns", "Plain.test_after_it", "Awaited.test_right")} == {"failed"}


def test_expected_failures_are_read_from_the_text():
    text = """
class A(unittest.TestCase):
    @unittest.expectedFailure
    def test_a(self): pass
    def test_b(self): pass
class B(A):
    def test_a(self): pass
    @expectedFailure
    def test_c(self): pass
@expectedFailure
class C(A): pass
class D(B): pass
"""
    expected = {"A.test_a", "B.test_c", "C.test_a", "C.test_b", "D.test_c"}
    assert expected_failures(text) == expected


PATCHED = """
import unittest
from unittest.mock import patch
class T(unittest.IsolatedAsyncioTestCase):
    @patch('time.sleep')
    async def test_patched(self, m): self.assertEqual(f(1), 4711)
    def test_clean_up(self): self.addAsyncCleanup(self.check)
    async def check(self): self.assertEqual(f(1), 4711)
"""


@pytest.mark.parametrize("awaited", ["('run_async', 'asyncSetUp', 'asyncTearDown')", "('asyncSetUp', 'asyncTearDown')"])
def test_a_patched_inspect_is_tampering(bubblewrap: BubblewrapSandbox, awaited: str):
    code = f"import inspect\ndef f(x): return 0\ninspect.iscoroutinefunction = lambda g: getattr(g, '__name__', '') in {awaited}"
    found = run_tests(bubblewrap, UnittestProgram(code=code, test=PATCHED), Limits(cpu_s=10, wall_s=60))
    assert (found.outcome, found.reason) == (Outcome.FAILED, FailureReason.TAMPERING)
    assert set(outcomes(found).values()) == {"failed"}
