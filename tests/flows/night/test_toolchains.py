"""Missing toolchains are named before anything is started, with the number of tasks that need
them.
"""

import shutil
from pathlib import Path

import pytest

from flows.cli.doctor import examine
from flows.night.preflight.checks import toolchain_warnings
from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from schemas.problem import Problem, SuiteKind, TestSuite
from tasks.storage.home import Home
from tests.problems import simple_problem
from tests.sandbox.without_toolchains import WithoutToolchains

pytestmark = pytest.mark.slow


def problem(name: str, kind: SuiteKind, *tests: str) -> Problem:
    """A task with such a suite."""
    plain = simple_problem(name)
    suite = TestSuite(tests=tests, kind=kind)
    return plain.model_copy(
        update={"instructions": (plain.instructions[0].model_copy(update={"suite": suite}),)}
    )


PROBLEMS = [
    problem("p", "asserts", "assert f() == 1"),
    problem("j", "java", "class Main {}"),
    problem("n1", "javascript", "require('module-that-nobody-has')"),
    problem("n2", "javascript", "require('module-that-nobody-has')"),
    problem("n3", "javascript", "require('fs')"),
]


@pytest.mark.skipif(
    not all(map(shutil.which, ("node", "javac"))), reason="node or a JDK is not installed"
)
@pytest.mark.usefixtures("bubblewrap")
def test_tasks_whose_module_is_missing_are_counted() -> None:
    (line,) = toolchain_warnings(BubblewrapSandbox(), PROBLEMS)
    assert line.startswith(
        "2 of the 5 pending tasks will be unscored (toolchain_missing): node has no module "
        "module-that"
    )
    assert "make install" in line


@pytest.mark.usefixtures("bubblewrap")
def test_without_node_and_jdk_both_are_named() -> None:
    java, *node = toolchain_warnings(WithoutToolchains(), PROBLEMS)
    assert java.startswith("1 of the 5 pending tasks")
    assert "default-jdk-headless" in java
    assert sum(int(line.split()[0]) for line in node) == 3
    assert all("the sandbox has no node" in line for line in node)


def test_a_run_of_python_alone_asks_for_no_toolchain() -> None:
    assert list(toolchain_warnings(WithoutToolchains(), PROBLEMS[:1])) == []


@pytest.mark.usefixtures("bubblewrap")
def test_the_doctor_names_each_toolchain(tmp_path: Path) -> None:
    findings = {one.what: one for one in examine(Home(tmp_path))}
    assert {"Java", "JavaScript"} <= findings.keys()
    if findings["JavaScript"].ok:
        assert "lodash" in findings["JavaScript"].detail
    else:
        assert findings["JavaScript"].ok is None
        assert "node" in findings["JavaScript"].detail
