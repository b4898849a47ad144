"""Expected failures count where the tests state them, as in plain pytest, and not where the
candidate's code does.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from schemas.verdict import Outcome
from tests.sandbox.judging.pytest_attacks import PROJECT
from tests.sandbox.judging.test_pytest_attacks import judged

FILE, OWN = "tests/test_expected.py", "tests/test_own.py"
TESTS = """
import unittest

import pytest
from pkg.words import demand, mark_as_expected, one

def test_plain():
    assert one() == 1

@pytest.mark.xfail(reason="known")
def test_marked():
    assert one() == 2

@pytest.mark.xfail
def test_marked_but_passes():
    assert one() == 1

@pytest.mark.xfail(strict=True)
def test_strictly_marked_but_passes():
    assert one() == 1

@pytest.mark.xfail(run=False)
def test_not_run():
    assert one() == 1

@pytest.mark.xfail(raises=KeyError)
def test_raises():
    {}["x"]

@pytest.mark.xfail(raises=KeyError)
def test_raises_another():
    assert one() == 2

@pytest.mark.xfail("sys.version_info < (3, 0)", reason="another Python")
def test_condition_does_not_hold():
    assert one() == 2

@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.xfail)])
def test_parameters(number):
    assert one() == number

def test_marked_by_conftest():
    assert one() == 2

class TestOld(unittest.TestCase):
    @unittest.expectedFailure
    def test_expected(self):
        self.assertEqual(one(), 2)

    def test_failed(self):
        self.assertEqual(one(), 2)

    def test_demanded(self):
        demand()

def test_demanded():
    demand()

@pytest.mark.xfail(False, reason="never")
def test_demanded_where_the_condition_does_not_hold():
    demand()

def test_mark_added():
    mark_as_expected()
"""
OWN_TESTS = """
import pytest

def test_own_demand():
    pytest.xfail("the test itself knows")
"""
LATE_TESTS = """
from pkg import words

def test_fixed():
    assert words.one() == 1

def test_uses():
    getattr(words, "demand", int)()
"""
CONFTEST = """
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        if item.name == "test_marked_by_conftest":
            item.add_marker(pytest.mark.xfail(reason="listed"))
"""
CODE = """
import sys

import pytest

def one():
    return 1

def demand():
    pytest.xfail("known")

def mark_as_expected():
    frame = sys._getframe()
    while "pyfuncitem" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["pyfuncitem"].add_marker(pytest.mark.xfail(reason="known"))
    raise AssertionError
"""
DEMANDS = {
    f"{FILE}::{name}"
    for name in (
        "TestOld::test_demanded",
        "test_demanded",
        "test_demanded_where_the_condition_does_not_hold",
        "test_mark_added",
    )
}
_WORD = re.compile(r"^(PASSED|FAILED|ERROR|XFAIL|XPASS|SKIPPED) (tests/\S+)", re.MULTILINE)


def words_of_plain_pytest(folder: Path) -> dict[str, str]:
    """Run plain pytest on the project; returns node -> pytest's word."""
    project = {
        **PROJECT,
        "tests/conftest.py": CONFTEST,
        FILE: TESTS,
        OWN: OWN_TESTS,
        "pkg/words.py": CODE,
    }
    for name, text in project.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    command = (
        sys.executable,
        "-m",
        "pytest",
        "-rA",
        "-q",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        FILE,
        OWN,
    )
    variables = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": str(folder),
        "COLUMNS": "500",
    }
    variables.pop("PYTEST_ADDOPTS", None)
    ran = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
    return {node: word for word, node in _WORD.findall(ran.stdout)}


@pytest.mark.slow
def test_marks_of_tests_count_as_in_plain_pytest_and_demands_of_the_code_do_not(
    bubblewrap: BubblewrapSandbox, tmp_path: Path
) -> None:
    plain = words_of_plain_pytest(tmp_path / "plain")
    own = f"{OWN}::test_own_demand"
    assert len(plain) == 17
    assert {node for node, word in plain.items() if word == "XFAIL"} >= {*DEMANDS, own}
    project = {**PROJECT, "tests/conftest.py": CONFTEST, FILE: TESTS, OWN: OWN_TESTS}
    verdict = judged("patch", bubblewrap, tmp_path, CODE, project, tuple(plain), (FILE, OWN))
    words = {case.name: re.search(r"says (\w+)", case.detail) for case in verdict.cases}
    expected = {
        node: "XFAIL_UNMARKED" if node in {*DEMANDS, own} else word for node, word in plain.items()
    }
    assert {node: found[1] if found else "PASSED" for node, found in words.items()} == expected
    passed = {case.name for case in verdict.cases if case.outcome is Outcome.PASSED}
    assert passed == {node for node, word in expected.items() if word in ("PASSED", "XFAIL")}


@pytest.mark.slow
def test_a_test_that_demands_its_failure_without_the_patch_too_goes_on_passing(
    bubblewrap: BubblewrapSandbox, tmp_path: Path
) -> None:
    """A candidate's code gains nothing: what it demands is an outcome that the test does not have
    without it.
    """
    late = "tests/test_late.py"
    project = {**PROJECT, "tests/conftest.py": CONFTEST, late: LATE_TESTS, OWN: OWN_TESTS}
    nodes, files = (f"{late}::test_fixed",), (late, OWN)
    same = judged(
        "patch",
        bubblewrap,
        tmp_path / "a",
        CODE,
        project,
        nodes,
        files,
        (f"{OWN}::test_own_demand",),
    )
    assert (same.outcome, same.detail) == (Outcome.PASSED, "")
    other = judged(
        "patch", bubblewrap, tmp_path / "b", CODE, project, nodes, files, (f"{late}::test_uses",)
    )
    assert {
        case.name: case.detail for case in other.cases if case.outcome is not Outcome.PASSED
    } == {f"{late}::test_uses": "pytest says XFAIL_UNMARKED"}
