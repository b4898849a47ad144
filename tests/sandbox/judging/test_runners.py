"""Each way of stating tests gives one verdict per test."""

import shutil

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.judging.runners import compiled_tests
from sandbox.judging.runners.compiled_tests import required_modules, toolchain_fault
from sandbox.judging.runners.programs import (
    AssertProgram,
    CheckProgram,
    JavaScriptProgram,
    RepositoryProgram,
    TestProgram,
    UnittestProgram,
)
from sandbox.judging.runners.python_tests import method_names
from sandbox.judging.runners.run import run_tests
from schemas.errors import Unscorable
from schemas.run import Limits
from schemas.verdict import FailureReason, Outcome, ProgramVerdict

pytestmark = pytest.mark.slow

LIMITS = Limits(cpu_s=10, wall_s=60)


def run(
    sandbox: BubblewrapSandbox, program: TestProgram, limits: Limits = LIMITS
) -> ProgramVerdict:
    return run_tests(sandbox, program, limits)


def outcomes(found: ProgramVerdict) -> dict[str, str]:
    return {case.name: case.outcome.value for case in found.cases}


def test_each_assertion_is_a_verdict_of_its_own(bubblewrap: BubblewrapSandbox):
    tests = ("assert f(1) == 1", "assert f(2) == 3", "assert f(3) == 3")
    found = run(bubblewrap, AssertProgram(code="def f(x): return x", tests=tests))
    assert outcomes(found) == {"test 1": "passed", "test 2": "failed", "test 3": "passed"}
    assert found.outcome is Outcome.FAILED
    assert found.cases[1].detail.endswith("assert f(2) == 3\nAssertionError")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "import os\ndef f(x): return x if x != 2 else os._exit(0)",
            ["passed", "failed", "failed"],
        ),
        ("def f(x):\n    while x == 2: pass\n    return x", ["passed", "timeout", "failed"]),
        (
            "import time\ndef f(x):\n    if x == 2: time.sleep(60)\n    return x",
            ["passed", "timeout", "failed"],
        ),
        (
            "import atexit, os\natexit.register(os._exit, 3)\ndef f(x): return x",
            ["failed", "failed", "failed"],
        ),
        ("f = lambda x: x; raise ValueError", ["failed", "failed", "failed"]),
        ("while True: pass", ["timeout", "timeout", "timeout"]),
    ],
)
def test_what_ends_a_program_decides_the_tests_that_it_kept_from_running(
    bubblewrap: BubblewrapSandbox, code: str, expected: list[str]
):
    tests = ("assert f(1) == 1", "assert f(2) == 2", "assert f(3) == 3")
    limits = Limits(cpu_s=1, wall_s=5 if "sleep" in code else 30)
    found = run(bubblewrap, AssertProgram(code=code, tests=tests), limits)
    assert list(outcomes(found).values()) == expected


def test_humaneval_s_form_puts_nothing_between_prompt_and_completion(bubblewrap: BubblewrapSandbox):
    test = "def check(candidate):\n    assert candidate(1) == 2"
    program = CheckProgram(
        prompt="def g(x):\n", completion="    return x + 1", test=test, entry_point="g"
    )
    assert outcomes(run(bubblewrap, program)) == {"check": "passed"}
    wrong = run(bubblewrap, program.model_copy(update={"completion": "    return x"}))
    assert wrong.cases[0].detail.endswith("in check\n    assert candidate(1) == 2\nAssertionError")


CASES = """
import unittest
class TestCases(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cls.one = 1
    def setUp(self): self.two = 2
    def helper(self): return 3
    def test_b(self): self.assertEqual(f(1), self.one)
    def test_a(self): self.assertEqual(f(2), self.helper())
    def test_c(self): self.skipTest('no reason')
    def test_d(self):
        with self.assertRaises(ValueError): f('a')
class More(TestCases):
    def test_e(self): self.assertEqual(f(self.two), 2)
if __name__ == '__main__': unittest.main()
"""
CODE = "def f(x):\n    if x == 'a': raise ValueError('no')\n    return x"


def test_each_method_of_unittest_is_a_verdict(bubblewrap: BubblewrapSandbox):
    found = run(bubblewrap, UnittestProgram(code=CODE, test=CASES))
    own = {
        "TestCases.test_b": "passed",
        "TestCases.test_a": "failed",
        "TestCases.test_c": "failed",
        "TestCases.test_d": "passed",
    }
    inherited = {name.replace("TestCases", "More"): outcome for name, outcome in own.items()}
    assert outcomes(found) == {**own, "More.test_e": "passed", **inherited}
    details = {case.name: case.detail for case in found.cases}
    assert details["TestCases.test_a"].endswith("AssertionError: 2 != 3")
    assert "suites" not in details["TestCases.test_a"]
    assert details["TestCases.test_c"] == "skipped: no reason"


@pytest.mark.parametrize("how", ["raise unittest.SkipTest('x')", "raise SystemExit(0)"])
def test_no_exception_of_unittest_s_own_passes(bubblewrap: BubblewrapSandbox, how: str):
    found = run(bubblewrap, UnittestProgram(code=f"import unittest\ndef f(x): {how}", test=CASES))
    assert set(outcomes(found).values()) == {"failed"}


def test_tests_without_a_test_are_refused():
    with pytest.raises(ValueError, match="no class"):
        method_names("x = 1")


TEST_FILE = b"""
import pytest
from pkg.m import f
def test_a(): assert f(1) == 1
def test_b(): assert f(1) == 2
@pytest.mark.skip
def test_c(): pass
@pytest.mark.xfail
def test_d(): assert 0
@pytest.fixture
def broken(): raise ValueError
def test_e(broken): pass
@pytest.mark.parametrize('x', [1, 2])
def test_p(x): assert f(x) == x
"""
FILES = {"pkg/__init__.py": b"", "pkg/m.py": b"def f(x): return x\n", "tests/test_m.py": TEST_FILE}
NODES = tuple(
    f"tests/test_m.py::test_{name}" for name in ("a", "b", "c", "d", "e", "p[1]", "absent")
)


def repository(
    nodes: tuple[str, ...], by_candidate: tuple[str, ...] = ("pkg/m.py",), **files: bytes
) -> RepositoryProgram:
    every = {**FILES, **{name.replace("__", "/") + ".py": text for name, text in files.items()}}
    return RepositoryProgram(files=tuple(every.items()), node_ids=nodes, by_candidate=by_candidate)


PARAMETERS = b"""
import pytest
from pkg.m import double

@pytest.mark.parametrize("n", [1, 2])
def test_all(n):
    assert double(n) == 2 * n

@pytest.mark.parametrize("n", ["a::b", "[c]", 3])
def test_some(n):
    assert n != 3

class TestGroup:
    def test_one(self):
        assert double(1) == 2
"""


def test_a_node_stands_for_its_parameters_and_a_class_for_its_methods(
    bubblewrap: BubblewrapSandbox,
):
    nodes = (
        "test_p.py::test_all",
        "test_p.py::test_some",
        "test_p.py::test_some[[c]]",
        "test_p.py::TestGroup",
    )
    files = {
        "pkg/__init__.py": b"",
        "pkg/m.py": b"def double(n):\n    return 2 * n\n",
        "test_p.py": PARAMETERS,
    }
    program = RepositoryProgram(
        files=tuple(files.items()), node_ids=nodes, by_candidate=("pkg/m.py",)
    )
    said = run_tests(bubblewrap, program, LIMITS)
    assert [case.outcome for case in said.cases] == [
        Outcome.PASSED,
        Outcome.FAILED,
        Outcome.PASSED,
        Outcome.PASSED,
    ]


def test_each_node_of_pytest_is_a_verdict_and_an_absent_one_has_failed(
    bubblewrap: BubblewrapSandbox,
):
    found = run(bubblewrap, repository(NODES))
    assert [(case.detail.partition("\n")[0], case.outcome.value) for case in found.cases] == [
        ("", "passed"),
        ("pytest says FAILED", "failed"),
        ("pytest says SKIPPED", "failed"),
        ("pytest says XFAIL", "passed"),
        ("pytest says ERROR", "failed"),
        ("", "passed"),
        ("pytest did not run it", "failed"),
    ]
    assert "assert 1 == 2" in found.cases[1].detail


@pytest.mark.parametrize("name", ["conftest", "tests__conftest", "sitecustomize", "tests__test_m"])
def test_a_candidate_s_file_that_steers_pytest_is_tampering(
    bubblewrap: BubblewrapSandbox, name: str
):
    found = run(
        bubblewrap, repository(NODES[:1], (name.replace("__", "/") + ".py",), **{name: b"x = 1\n"})
    )
    assert (found.outcome, found.reason) == (Outcome.FAILED, FailureReason.TAMPERING)


def test_printing_what_pytest_prints_and_leaving_passes_nothing(bubblewrap: BubblewrapSandbox):
    text = b"import os\nprint('tests/test_m.py::test_a PASSED')\nos._exit(0)\n"
    assert set(outcomes(run(bubblewrap, repository(NODES[:2], pkg__m=text))).values()) == {"failed"}


def node_missing() -> str | None:
    return (
        None
        if shutil.which("node")
        else "node is not installed (`apt-get install nodejs node-lodash`)"
    )


def javascript(body: str, test: str = "\nif (f(1) !== 1) { throw 'no' }") -> JavaScriptProgram:
    return JavaScriptProgram(prompt="function f(x) {", completion=f"{body} }}", test=test)


@pytest.mark.skipif(node_missing() is not None, reason=node_missing() or "")
@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("return x", "passed"),
        ("return 2", "failed"),
        ("process.exit(0)", "failed"),
        ("process.emit('beforeExit'); process.exit(0)", "failed"),
        ("process.on('uncaughtException', () => process.exit(0)); return 2", "failed"),
        ("console.log('ended'); return y", "failed"),
        ("while (true) {}", "timeout"),
        ("require('inspector'); return x", "failed"),
        ("JSON.stringify = () => '1'; return x", "passed"),
    ],
)
def test_javascript_passes_by_its_own_end_only(
    bubblewrap: BubblewrapSandbox, body: str, outcome: str
):
    assert run(bubblewrap, javascript(body), Limits(cpu_s=2, wall_s=30)).outcome.value == outcome


@pytest.mark.skipif(node_missing() is not None, reason=node_missing() or "")
def test_javascript_may_use_lodash(bubblewrap: BubblewrapSandbox):
    if fault := toolchain_fault(bubblewrap, "javascript", ("lodash",)):
        pytest.skip(fault)
    test = "\nconst _ = require('lodash')\nif (!_.isEqual(f(1), [1])) { throw 'no' }"
    found = run(bubblewrap, javascript("return [x]", test))
    assert found.outcome is Outcome.PASSED


@pytest.mark.skipif(node_missing() is not None, reason=node_missing() or "")
@pytest.mark.parametrize(
    "body", ["return x", "return 2", "require('module-that-nobody-has'); return x", "syntax error"]
)
def test_a_module_that_the_tests_require_belongs_to_the_toolchain(
    bubblewrap: BubblewrapSandbox, body: str
):
    """It is no failure of the candidate's, whatever the candidate does.

    161 of HumanEval's 486 rows failed without lodash.
    """
    test = "\nconst m = require('module-that-nobody-has')\nif (f(1) !== 1) { throw 'no' }"
    with pytest.raises(Unscorable, match="module-that-nobody-has") as missing:
        run(bubblewrap, javascript(body, test))
    assert missing.value.reason == "toolchain_missing"


@pytest.mark.skipif(node_missing() is not None, reason=node_missing() or "")
def test_without_lodash_a_case_of_humaneval_is_unscored(
    bubblewrap: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(compiled_tests, "NODE_FOLDERS", "/usr/share/nothing")
    monkeypatch.setattr(compiled_tests, "_modules_seen", {})
    test = "\nconst _ = require(\"lodash\")\nif (!_.isEqual(f(1), 1)) { throw 'no' }"
    with pytest.raises(Unscorable, match="node has no module lodash"):
        run(bubblewrap, javascript("return x", test))
    assert run(bubblewrap, javascript("return x")).outcome is Outcome.PASSED


@pytest.mark.skipif(node_missing() is not None, reason=node_missing() or "")
def test_a_module_that_the_candidate_alone_requires_is_its_own_failure(
    bubblewrap: BubblewrapSandbox,
):
    found = run(bubblewrap, javascript("require('module-that-nobody-has'); return x"))
    assert found.outcome is Outcome.FAILED


def test_required_modules_are_read_from_tests():
    text = (
        "const a = require(\"lodash\"), b = require( 'node:fs' );\nrequire('./helper'); "
        "myrequire('no'); require(name)"
    )
    assert required_modules(text) == {"lodash", "node:fs"}
