"""A project whose tests plain unittest runs, on its environment's own Python: gold resolves, cheats
do not.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from sandbox.host.python_environment import find_python
from schemas.audit import AuditOutcome
from schemas.problem import Problem
from schemas.run import Limits
from schemas.verdict import Outcome
from tasks.benchmarks.dialogue_swebench.resources import resolve_resources
from tasks.benchmarks.dialogue_swebench.stage import stage
from tasks.storage.home import Home
from tests.tasks.benchmarks.dialogue_swebench.attacks import ATTACKS, Attack
from tests.tasks.benchmarks.dialogue_swebench.graded import (
    SAMPLE,
    SLUGS,
    audited,
    base_files,
    grade,
    patch_of,
    places_of,
)

pytestmark = pytest.mark.slow
LIMITS = Limits(wall_s=60)
_CODE = base_files("parley-sample/slugs")["slugs.py"]
_FORGED = "test_reset (tests.test_slugs.Sluggers) ... ok"
_SHARED = (
    "the tests are emptied",
    "the tests' folder is a link to others",
    "a start-up file ends Python well",
    "the code exits as it is imported",
    "the code exits in a test",
    "a child goes on, its parent ends well",
    "a process stays behind",
)
_CLASS = """
import unittest
methods = {"addFailure": lambda self, test, err: self.addSuccess(test)}
unittest.TextTestRunner.resultclass = type("R", (unittest.TextTestResult,), methods)
"""
_SUCCESS = """
import unittest
unittest.TextTestResult.addFailure = lambda self, test, err: self.addSuccess(test)
"""
_SKIP = """
import unittest

def _skip(*given):
    raise unittest.SkipTest("not today")

Slugger.slug = Slugger.reset = _skip
"""
OWN = {
    "the log has passing lines": Attack(
        {"slugs.py": f"import os\nprint('{_FORGED}', flush=True)\nos._exit(0)\n"}
    ),
    "a result class of the code's": Attack({"slugs.py": _CODE + _CLASS}),
    "a failure is reported as a success": Attack({"slugs.py": _CODE + _SUCCESS}),
    "the code skips its tests": Attack({"slugs.py": _CODE + _SKIP}),
    "a unittest of its own": Attack(
        {"unittest/__init__.py": "import os\nos._exit(0)\n", "unittest/__main__.py": "pass\n"}
    ),
}
CHEATS = {**{name: ATTACKS[name] for name in _SHARED}, **OWN}


def as_unittest(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of the instance with its tests as unittest names them, and the command that
    runs them.
    """
    lists = {
        name: [
            f"{method} (tests.test_slugs.{kind})"
            for _, kind, method in (test.split("::") for test in row[name])
        ]
        for name in ("FAIL_TO_PASS", "PASS_TO_PASS")
    }
    return {**row, **lists, "test_cmd": "python -m unittest -v"}


def _furnished(home: Home, folder: Path, version: str) -> Problem:
    """Return the instance as one of a project that unittest runs on a version of Python, without
    packages.
    """
    rows = [
        json.loads(line)
        for line in (SAMPLE / "sample.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    row = as_unittest(next(row for row in rows if row["instance_id"] == SLUGS))
    (folder / "rows.jsonl").write_text(json.dumps(row) + "\n")
    pins = {
        "python": version,
        "environments": {"bare": {"versions": [row["version"]], "requirements": []}},
    }
    (folder / "pins.json").write_text(json.dumps(pins))
    resources = {"repos": SAMPLE / "repos", "environments": folder / "pins.json"}
    (problem,) = resolve_resources(
        stage(folder / "rows.jsonl", "x"), None, resources, home
    ).problems
    assert problem.repo is not None
    assert (problem.repo.runner, problem.repo.command) == ("unittest", ("-m", "unittest", "-v"))
    return problem


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def problem(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return _furnished(home, tmp_path_factory.mktemp("data"), "3.11")


@pytest.mark.parametrize("version", ["3.6", "3.8", "3.9", "3.11", "3.13"])
def test_gold_resolves_and_the_empty_patch_does_not(
    home: Home, tmp_path: Path, version: str
) -> None:
    if find_python(version) is None:
        pytest.skip(f"no Python {version} is on this machine")
    problem = _furnished(home, tmp_path, version)
    assert problem.repo is not None
    gold, empty = (grade(home, problem, patch) for patch in (problem.reference_code, ""))
    assert (gold.outcome, gold.detail) == (Outcome.PASSED, "")
    assert {case.name for case in empty.cases if case.outcome is not Outcome.PASSED} == set(
        problem.repo.fail_to_pass
    )


@pytest.mark.parametrize(
    "name", ["gold", "assertEqual accepts everything", "anchors equal everything"]
)
def test_the_audit_tells_earned_passes_from_forged_ones(
    home: Home, problem: Problem, tmp_path: Path, name: str
) -> None:
    assert problem.repo is not None
    patch = (
        problem.reference_code
        if name == "gold"
        else patch_of(tmp_path, problem.repo.repo, ATTACKS[name].changes)
    )
    assert grade(home, problem, patch).outcome is Outcome.PASSED
    assert audited(home, problem, patch).outcome is (
        AuditOutcome.EARNED if name == "gold" else AuditOutcome.FORGED
    )


@pytest.mark.parametrize("name", CHEATS)
def test_no_cheat_passes(home: Home, problem: Problem, tmp_path: Path, name: str) -> None:
    assert problem.repo is not None
    attack = CHEATS[name]
    verdict = grade(
        home, problem, patch_of(tmp_path, problem.repo.repo, attack.changes, attack.links)
    )
    assert verdict.outcome is not Outcome.PASSED
    assert any(
        case.outcome is not Outcome.PASSED
        for case in verdict.cases
        if case.name in problem.repo.fail_to_pass
    )


_SEEN = """
import importlib.util, json, sys
names = ("pytest", "pydantic", "numpy", "sympy", "yaml", "flask", "requests")
print(json.dumps([name for name in names if importlib.util.find_spec(name)]))
"""


@pytest.mark.parametrize("version", ["3.6", "3.11"])
def test_an_agent_sees_no_packages_but_those_of_the_environment(
    home: Home, tmp_path: Path, version: str
) -> None:
    """Parley's own packages would show an agent later releases of the project that it repairs."""
    if find_python(version) is None:
        pytest.skip(f"no Python {version} is on this machine")
    repo = _furnished(home, tmp_path, version).repo
    assert repo is not None
    pythons = ("/environment/bin/python", "{python}", "/usr/bin/python3")
    with places_of(home, "bubblewrap")(repo.tree, repo.environment) as place:
        bare = [
            json.loads(place.run((python, "-c", _SEEN), LIMITS).stdout)
            for python in pythons
            if python != pythons[2]
        ]
        system = place.run((pythons[2], "-c", _SEEN), LIMITS)
        files = place.run(
            ("/usr/bin/find", "/", "-name", "pydantic*", "-not", "-path", "/proc/*"), LIMITS
        )
    assert bare == [[], []]
    assert system.exit_code != 0 or json.loads(system.stdout) == []
    assert files.stdout == b""
    with places_of(home, "bubblewrap")(repo.tree, "") as place:
        assert "pytest" in json.loads(place.run(("{python}", "-c", _SEEN), LIMITS).stdout), (
            "without an environment they are there"
        )
