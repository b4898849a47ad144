"""Test methods of unittest that are not plain: awaited ones, expected failures, those that assign
what is not theirs.
"""

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.judging.runners.programs import UnittestProgram
from sandbox.judging.runners.run import run_tests
from schemas.run import Limits
from schemas.verdict import ProgramVerdict

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
        "Plain.test_never_awaited": "passed",  # as unittest has it, with a warning
    }
    assert outcomes(found) == expected


def test_a_skipped_or_swallowed_test_ends_as_unittest_says_but_a_skip_has_failed(
    bubblewrap: BubblewrapSandbox,
):
    text = """
import unittest
class Swallows:
    def __enter__(self): return self
    def __exit__(self, *a): return True
class T(unittest.TestCase):
    @unittest.skip("not today")
    def test_skipped(self): pass
    def test_skips_itself(self): self.skipTest("no")
    def test_swallowed(self):
        with Swallows(): self.assertEqual(f(1), 2)
    def test_parts(self):
        for n in (1, 2):
            with self.subTest(n): self.assertEqual(f(n), 1)
"""
    found = run_tests(
        bubblewrap,
        UnittestProgram(code="def f(x): return x", test=text),
        Limits(cpu_s=10, wall_s=60),
    )
    expected = {
        "T.test_skipped": "failed",
        "T.test_skips_itself": "failed",
        "T.test_swallowed": "passed",
    }
    assert outcomes(found) == {**expected, "T.test_parts": "failed"}


def test_a_module_that_breaks_ends_the_run_at_once(bubblewrap: BubblewrapSandbox):
    text = "1 / 0\nimport unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"
    found = run_tests(bubblewrap, UnittestProgram(code="", test=text), Limits(cpu_s=10, wall_s=60))
    assert outcomes(found) == {"T.test_a": "failed"}
    assert found.module_error is not None
    assert "ZeroDivisionError" in found.module_error
    assert found.duration_s < 20


def test_a_late_import_understands_signatures_that_an_early_one_made(bubblewrap: BubblewrapSandbox):
    code = "import inspect\ndef g(): pass\ng.__signature__ = inspect.signature(len)\n"
    code += (
        "def f(x):\n    from inspect import signature\n    return x if "
        "len(signature(g).parameters) == 1 else 0"
    )
    assert outcomes(judged(bubblewrap, code))["Plain.test_after_it"] == "passed"
