"""Real instances: Sphinx's in SWE-bench Verified (mini), where the repository's public history lies beside.

`PARLEY_SPHINX` names the repository's folder; the environment's packages come from the package index, and are kept in the folder
that `PARLEY_SPHINX_HOME` names, if it names one. `PARLEY_SPHINX_INSTANCES=all` grades all 25, gold and empty, against the table.
"""

import os
from pathlib import Path

import pytest

from schemas.errors import Unscorable
from schemas.problem import Problem
from schemas.verdict import Outcome
from tasks.benchmarks.dialogue_swebench.furnish import furnish
from tasks.benchmarks.dialogue_swebench.stage import stage
from tasks.storage.home import Home
from tests.tasks.benchmarks.dialogue_swebench.graded import grade

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.shared, pytest.mark.timeout(1800)]
REPOSITORY, KEPT = os.environ.get("PARLEY_SPHINX"), os.environ.get("PARLEY_SPHINX_HOME")
ALL = os.environ.get("PARLEY_SPHINX_INSTANCES") == "all"
"""Read before any test begins: tests see no variable of ours."""
TWO = ("sphinx-doc__sphinx-8265", "sphinx-doc__sphinx-9367")
UNSCORED = {f"sphinx-doc__sphinx-{number}" for number in (7985, 8269, 8475, 10435)}
NOT_HERE = {f"sphinx-doc__sphinx-{number}" for number in (7757, 9281)}
SINCE_3_11_3 = "sphinx-doc__sphinx-7748"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(Path(KEPT) if KEPT else tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def problems(home: Home, shared_data: Path) -> dict[str, Problem]:
    if not REPOSITORY:
        pytest.skip("PARLEY_SPHINX names no repository of Sphinx")
    data = shared_data / "swebench_verified_mini" / "data.csv"
    pins = shared_data / "swebench_sphinx" / "environments.json"
    staged = furnish(stage(data, "x"), data, {"repos": Path(REPOSITORY), "environments": pins}, home)
    assert len(staged.problems) == 25
    assert {row.reason for row in staged.quarantined} == {"repository_missing"}
    return {problem.problem_id: problem for problem in staged.problems}


def test_gold_resolves_and_the_empty_patch_does_not(home: Home, problems: dict[str, Problem]):
    wanted = list(problems) if ALL else list(TWO)
    unscored: set[str] = set()
    failed: dict[str, str] = {}
    for name in wanted:
        try:
            gold, empty = (grade(home, problems[name], patch) for patch in (problems[name].reference_code, ""))
        except Unscorable as missing:
            unscored.add(f"{name}: {missing.reason}")
            continue
        assert empty.outcome is Outcome.FAILED
        assert empty.reason is None
        if gold.outcome is not Outcome.PASSED:
            failed[name] = gold.detail
    assert unscored == {f"{name}: network_missing" for name in UNSCORED & set(wanted)}
    assert set(failed) - {SINCE_3_11_3} == NOT_HERE & set(wanted), failed


def test_a_forging_conftest_is_not_believed(home: Home, problems: dict[str, Problem]):
    problem = problems[TWO[0]]
    assert problem.repo is not None
    lines = [f"print('PASSED {name}')" for name in problem.instructions[0].suite.tests] + ["import os", "os._exit(0)"]
    body = "".join(f"+{line}\n" for line in lines)
    patch = f"--- /dev/null\n+++ b/tests/sub/conftest.py\n@@ -0,0 +1,{len(lines)} @@\n{body}"
    verdict = grade(home, problem, patch)
    assert verdict.outcome is Outcome.FAILED
    assert {case.name for case in verdict.cases if case.outcome is not Outcome.PASSED} == set(problem.repo.fail_to_pass)
