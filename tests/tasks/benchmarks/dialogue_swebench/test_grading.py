"""A patch is graded by the project's tests and nothing else: gold resolves, and the empty patch
fails.
"""

from pathlib import Path

import pytest

from schemas.problem import Problem
from schemas.verdict import Outcome
from tasks.storage.home import Home
from tests.tasks.benchmarks.dialogue_swebench.attacks import ATTACKS, IN_GIT, NO_DIFFS
from tests.tasks.benchmarks.dialogue_swebench.graded import (
    LEDGER,
    RETRIER,
    SLUGS,
    base_files,
    furnished_sample,
    grade,
    patch_of,
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def problems(home: Home) -> dict[str, Problem]:
    return {problem.problem_id: problem for problem in furnished_sample(home).problems}


@pytest.mark.slow
@pytest.mark.parametrize("name", [LEDGER, SLUGS, RETRIER])
def test_gold_resolves_and_the_empty_patch_does_not(
    home: Home, problems: dict[str, Problem], name: str
):
    problem = problems[name]
    assert problem.repo is not None
    gold, empty = (grade(home, problem, patch) for patch in (problem.reference_code, ""))
    assert (
        gold.outcome,
        [case.detail for case in gold.cases if case.outcome is not Outcome.PASSED],
    ) == (Outcome.PASSED, [])
    failed = {case.name for case in empty.cases if case.outcome is not Outcome.PASSED}
    assert empty.outcome is Outcome.FAILED
    assert failed == set(problem.repo.fail_to_pass)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, attack in ATTACKS.items() if not attack.for_audit])
def test_no_cheat_passes(home: Home, problems: dict[str, Problem], tmp_path: Path, name: str):
    attack = ATTACKS[name]
    problem = problems[attack.problem]
    assert problem.repo is not None
    verdict = grade(
        home, problem, patch_of(tmp_path, problem.repo.repo, attack.changes, attack.links)
    )
    assert verdict.outcome is not Outcome.PASSED
    assert any(
        case.outcome is not Outcome.PASSED
        for case in verdict.cases
        if case.name in problem.repo.fail_to_pass
    )


@pytest.mark.parametrize("name", NO_DIFFS)
def test_what_does_not_apply_fails(home: Home, problems: dict[str, Problem], name: str):
    verdict = grade(home, problems[SLUGS], NO_DIFFS[name])
    assert verdict.outcome is Outcome.FAILED
    assert "does not apply" in verdict.detail


@pytest.mark.slow
def test_files_of_git_change_nothing(home: Home, problems: dict[str, Problem]):
    with_hook, without = (grade(home, problems[SLUGS], patch) for patch in (IN_GIT, ""))
    assert with_hook.outcome is Outcome.FAILED
    assert [case.outcome for case in with_hook.cases] == [case.outcome for case in without.cases]


@pytest.mark.slow
def test_what_the_fix_adds_to_the_tests_is_not_looked_at(
    home: Home, problems: dict[str, Problem], tmp_path: Path
):
    """An honest fix that comes with tests and settings of its own resolves: these are put back, not
    accused.
    """
    problem = problems[SLUGS]
    fix = patch_of(
        tmp_path, "parley-sample/slugs", {"tests/test_more.py": "def test_x():\n    assert False\n"}
    )
    tests = base_files("parley-sample/slugs")["tests/test_slugs.py"].replace("PlainSlugs", "Plain")
    (tmp_path / "other").mkdir()
    changed = patch_of(
        tmp_path / "other",
        "parley-sample/slugs",
        {"tests/test_slugs.py": tests, "pytest.ini": "[pytest]\n"},
    )
    verdict = grade(home, problem, problem.reference_code + fix + changed)
    assert (verdict.outcome, verdict.detail) == (Outcome.PASSED, "")


@pytest.mark.slow
def test_a_patch_with_other_context_is_applied_by_the_chain(
    home: Home, problems: dict[str, Problem]
):
    gold = problems[RETRIER].reference_code
    moved = gold.replace(
        "             if number == tries:\n", "             if number >= tries:  # ours\n"
    )
    assert moved != gold
    assert grade(home, problems[RETRIER], moved).outcome is Outcome.PASSED
