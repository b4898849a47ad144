"""Real instances: Sphinx's in SWE-bench Verified (mini), where the repository's public history lies
beside.

`real/projects.py` has the variables. The environments' packages come from the package index.
"""

import json
from pathlib import Path

import pytest

from sandbox.host.python_environment import find_python
from schemas.problem import Problem
from schemas.verdict import Outcome
from tasks.benchmarks.dialogue_swebench.resources import resolve_resources
from tasks.benchmarks.dialogue_swebench.stage import stage
from tasks.storage.home import Home
from tests.tasks.benchmarks.dialogue_swebench.graded import grade
from tests.tasks.benchmarks.dialogue_swebench.real.projects import SPHINX, graded_ends

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.shared, pytest.mark.timeout(1800)]
NEEDS_WEB = {f"sphinx-doc__sphinx-{number}" for number in (7985, 8269, 8475, 10435)}
NOT_HERE = {f"sphinx-doc__sphinx-{number}" for number in (7757, 9281)}
SINCE_3_11_3 = "sphinx-doc__sphinx-7748"
ON_3_9 = (*sorted(NOT_HERE), SINCE_3_11_3)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return SPHINX.home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def problems(
    home: Home, shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Problem]:
    staged = SPHINX.staged(shared_data, tmp_path_factory.mktemp("data"), home)
    assert len(staged.problems) == 25 - len(NEEDS_WEB)
    web = {
        row.detail.partition(":")[0]
        for row in staged.quarantined
        if row.reason == "network_missing"
    }
    assert web == NEEDS_WEB
    assert {row.reason for row in staged.quarantined} == {"network_missing"}
    return {problem.problem_id: problem for problem in staged.problems}


def test_gold_resolves_and_the_empty_patch_does_not(home: Home, problems: dict[str, Problem]):
    wanted = list(problems) if SPHINX.is_asked_for_all else list(SPHINX.two)
    failed: dict[str, str] = {}
    for name, (gold, empty) in zip(
        wanted, graded_ends(home, [problems[name] for name in wanted]), strict=True
    ):
        assert empty.outcome is Outcome.FAILED
        assert empty.reason is None
        if gold.outcome is not Outcome.PASSED:
            failed[name] = gold.detail
    assert set(failed) - {SINCE_3_11_3} == NOT_HERE & set(wanted), failed


def test_what_fails_on_a_newer_python_resolves_on_that_of_swe_bench(
    home: Home, shared_data: Path, tmp_path: Path
):
    """Python 3.9 is SWE-bench's for these. `requirements_py39` has the pins for it."""
    resources = SPHINX.resources(shared_data)
    if find_python("3.9") is None:
        pytest.skip("this machine has no Python 3.9")
    pins = json.loads(resources["environments"].read_text(encoding="utf-8"))
    for environment in pins["environments"].values():
        environment |= {"python": "3.9", "requirements": environment["requirements_py39"]}
    (tmp_path / "pins.json").write_text(json.dumps(pins))
    data = SPHINX.data(shared_data, tmp_path, ON_3_9)
    staged = stage(data, "x")
    assert len(staged.problems) == len(ON_3_9)
    for problem in resolve_resources(
        staged, data, resources | {"environments": tmp_path / "pins.json"}, home
    ).problems:
        gold, empty = (grade(home, problem, patch) for patch in (problem.reference_code, ""))
        assert (gold.outcome, gold.detail) == (Outcome.PASSED, ""), problem.problem_id
        assert empty.outcome is Outcome.FAILED


def test_a_forging_conftest_is_not_believed(home: Home, problems: dict[str, Problem]):
    problem = problems[SPHINX.cheated]
    assert problem.repo is not None
    lines = [f"print('PASSED {name}')" for name in problem.instructions[0].suite.tests] + [
        "import os",
        "os._exit(0)",
    ]
    body = "".join(f"+{line}\n" for line in lines)
    patch = f"--- /dev/null\n+++ b/tests/sub/conftest.py\n@@ -0,0 +1,{len(lines)} @@\n{body}"
    verdict = grade(home, problem, patch)
    assert verdict.outcome is Outcome.FAILED
    assert {case.name for case in verdict.cases if case.outcome is not Outcome.PASSED} == set(
        problem.repo.fail_to_pass
    )
