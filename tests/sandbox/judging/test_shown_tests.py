"""What partial coverage shows of a program's tests tells nothing of the hidden ones: the shown ones
run first.
"""

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from schemas.run import Limits
from schemas.verdict import Outcome
from tests.sandbox.programs import run_program

LIMITS = Limits(cpu_s=5, wall_s=60)
SHOWN = 3
TESTS = """
import unittest
class TestCases(unittest.TestCase):
    def test_case_1(self): self.assertEqual(f("shown 1"), 1)
    def test_case_2(self): self.assertEqual(f("shown 2"), 1)
    def test_case_3(self): self.assertEqual(f("shown 3"), 1)
    def test_case_10(self): self.assertEqual(f("hidden 10"), 1)
class Earlier(unittest.TestCase):
    def test_a(self): self.assertEqual(f("hidden a"), 1)
"""
CLASSES = """
import unittest
class B(unittest.TestCase):
    @classmethod
    def setUpClass(cls): mark("up B")
    @classmethod
    def tearDownClass(cls): mark("down B")
    def test_z(self): self.assertEqual(mark("B.z"), "up B, B.z")
    def test_y(self): self.assertEqual(mark("B.y"), "")
    def test_b(self): self.assertEqual(mark("B.b"), "")
    def test_a(self): self.assertEqual(mark("B.a"), "")
class A(unittest.TestCase):
    @classmethod
    def setUpClass(cls): mark("up A")
    @classmethod
    def tearDownClass(cls): mark("down A")
    def test_a(self): self.assertEqual(mark("A.a"), "")
class C(unittest.TestCase):
    def test_a(self): self.assertEqual(mark("C.a"), "")
"""


@pytest.mark.parametrize("raised", ["ValueError", "AssertionError"])
def test_no_shown_test_tells_what_a_hidden_one_was_called_with(
    bubblewrap: BubblewrapSandbox, raised: str
):
    code = f"seen = []\ndef f(x):\n    seen.append(x)\n    raise {raised}(' and '.join(seen))"
    found = run_program(bubblewrap, "unittest", code, (TESTS,), LIMITS)
    assert [case.name.rpartition(".")[2] for case in found.cases] == [
        f"test_case_{n}" for n in (1, 2, 3, 10)
    ] + ["test_a"]
    for case in found.cases[:SHOWN]:
        assert "hidden" not in case.detail
    assert "hidden" in found.cases[SHOWN].detail
    assert "shown 1 and shown 2 and shown 3" in found.cases[SHOWN].detail


def test_a_class_is_set_up_once_and_torn_down_after_its_last_method_wherever_that_runs(
    bubblewrap: BubblewrapSandbox,
):
    code = "said = []\ndef mark(x):\n    said.append(x)\n    return ', '.join(said)"
    found = run_program(bubblewrap, "unittest", code, (CLASSES,), LIMITS)
    assert {case.name: case.outcome for case in found.cases}["B.test_z"] is Outcome.FAILED
    (last,) = [case for case in found.cases if case.name == "C.test_a"]
    assert "up B, B.b, B.y, B.z, up A, A.a, down A, B.a, down B, C.a" in last.detail
