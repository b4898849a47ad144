"""The harness's part in a repository's environment runs on Python 3.5 and newer."""

import ast
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.harness import keccak
from sandbox.host.python_environment import HARNESS, find_python
from sandbox.interface import Completed
from sandbox.judging.judged_run import believable_records, fields
from schemas.run import Limits
from schemas.verdict import Outcome

FILES = (
    "project_tests.py",
    "project_runners.py",
    "pytest_suite.py",
    "sealed_channel.py",
    "keccak.py",
)
VERSIONS = ("3.5", "3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
SECRET = "0" * 32
TESTS = '''
import unittest

class Things(unittest.TestCase):
    def test_good(self):
        """What it is about.

        More of it.
        """

    def test_bad(self):
        self.assertEqual(1, 2)

    def test_parts(self):
        for n in range(2):
            with self.subTest(n=n):
                self.assertEqual(n, 0)

    @unittest.skip("not here")
    def test_no(self):
        pass

    @unittest.expectedFailure
    def test_known(self):
        self.fail()

class Late(unittest.TestCase):
    def test_1_demands(self):
        Late.test_2_demanded.__unittest_expecting_failure__ = True

    def test_2_demanded(self):
        self.fail()

class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise KeyError("no database")

    def test_never(self):
        pass
'''


@pytest.mark.parametrize("name", FILES)
def test_the_files_have_the_syntax_of_python_3_5(name: str) -> None:
    tree = ast.parse((HARNESS / name).read_text(encoding="utf-8"), feature_version=(3, 5))
    newer = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.Match, ast.AsyncFunctionDef)
    assert [node.lineno for node in ast.walk(tree) if isinstance(node, newer)] == []
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert functions
    for function in (
        functions
    ):  # an annotation would be evaluated: there is no `from __future__ import annotations` yet
        assert function.returns is None
        assert all(
            one.annotation is None for one in (*function.args.args, *function.args.kwonlyargs)
        )
    assert "__future__" not in {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    }


@pytest.mark.parametrize("n_bytes", [0, 1, 135, 136, 137, 300])
def test_the_digest_in_plain_python_is_that_of_hashlib(n_bytes: int) -> None:
    data = bytes(range(256)) * 2
    for size in (16, 136, 200):
        assert keccak.shake_256(data[:n_bytes]).digest(size) == hashlib.shake_256(
            data[:n_bytes]
        ).digest(size)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_tests_are_reported_from_every_python_that_is_here(version: str, tmp_path: Path) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"no Python {version} is on this machine")
    (tmp_path / "test_things.py").write_text(TESTS)
    done = _run(
        python.path, tmp_path, {"runner": "unittest", "command": "-m\nunittest\n-v\ntest_things"}
    )
    ran, records = believable_records(done, SECRET, Limits())
    assert (ran.outcome, ran.detail) == (Outcome.PASSED, ""), done.stderr
    words = {
        label.removeprefix("node ").partition(" (")[0]: word
        for label, (word, _) in records.items()
        if label.startswith("node ")
    }
    assert words.pop("exit") == "1"
    assert words == {
        "test_good": "PASSED",
        "What it is about.": "PASSED",
        "test_bad": "FAILED",
        "test_parts": "FAILED",
        "test_no": "SKIPPED",
        "test_known": "XFAIL",
        "test_1_demands": "PASSED",
        "test_2_demanded": "XFAIL_UNMARKED",
        "setUpClass": "ERROR",
    }


@pytest.mark.slow
def test_an_interpreter_that_does_not_start_is_no_verdict_on_the_tests(tmp_path: Path) -> None:
    done = _run(str(tmp_path / "none"), tmp_path, {"runner": "unittest", "command": "-m\nunittest"})
    assert b"node exit" not in done.report


def _run(python: str, folder: Path, job: dict[str, str]) -> Completed:
    """Run the harness without a sandbox."""
    whole = {
        "kind": "repository",
        "folders": "",
        **dict.fromkeys(("files", "arguments", "warnings", "paths", "nodes", "environment"), ""),
        **job,
    }
    payload = fields(
        SECRET, "60", fields(*(part for item in whole.items() for part in item)), fields()
    )
    reads, writes = os.pipe()
    argv = (
        sys.executable,
        "-S",
        "-s",
        "-P",
        str(HARNESS / "run_project_tests.py"),
        "X=1",
        "--",
        python,
        "-S",
        "-s",
    )
    environment = {"PATH": os.environ["PATH"], "PARLEY_REPORT_FD": str(writes)}
    done = subprocess.run(
        argv,
        input=payload,
        cwd=folder,
        env=environment,
        pass_fds=(writes,),
        capture_output=True,
        timeout=100,
    )
    os.close(writes)
    with open(reads, "rb") as report:
        return Completed(
            exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr, report=report.read()
        )
