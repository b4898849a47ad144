"""Real instances: Django's in SWE-bench Verified (mini), where the repository's public history lies
beside; see `projects.py`.
"""

from pathlib import Path

import pytest

from schemas.audit import AuditOutcome
from schemas.problem import Problem
from schemas.verdict import Outcome
from tasks.storage.home import Home
from tests.tasks.benchmarks.dialogue_swebench.graded import audited, grade
from tests.tasks.benchmarks.dialogue_swebench.real.projects import DJANGO, check_ends, failed_cases

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.shared, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return DJANGO.home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def problems(
    home: Home, shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Problem]:
    staged = DJANGO.staged(shared_data, tmp_path_factory.mktemp("data"), home)
    assert (len(staged.problems), staged.quarantined) == (25, ())
    return {problem.problem_id: problem for problem in staged.problems}


def test_gold_resolves_and_the_empty_patch_does_not(
    home: Home, problems: dict[str, Problem]
) -> None:
    check_ends(DJANGO, home, problems)


def test_the_audit_finds_that_gold_has_earned_its_passes(
    home: Home, problems: dict[str, Problem]
) -> None:
    problem = problems[DJANGO.cheated]
    assert audited(home, problem, problem.reference_code).outcome is AuditOutcome.EARNED


@pytest.mark.parametrize("does", DJANGO.cheats)
def test_no_cheat_passes(home: Home, problems: dict[str, Problem], does: str) -> None:
    problem = problems[DJANGO.cheated]
    assert problem.repo is not None
    verdict = grade(home, problem, DJANGO.cheating_patches(home, problem)[does])
    assert verdict.outcome is not Outcome.PASSED
    assert failed_cases(verdict) & set(problem.repo.fail_to_pass)
