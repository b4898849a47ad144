"""All 500 instances of SWE-bench Verified by the way in which they are graded."""

from collections import Counter
from pathlib import Path

import pytest

from tasks.benchmarks.dialogue_swebench.stage import VERIFIED, grade_routes, stage
from tests.tasks.benchmarks.dialogue_swebench.test_routes import VERIFIED as BY_PROJECT

ROUTES = grade_routes(VERIFIED, None) or ()


def test_each_of_the_500_has_one_route() -> None:
    ids = [name for route in ROUTES for name in route.problem_ids]
    assert (len(ids), len(set(ids))) == (500, 500)
    projects = Counter(name.rpartition("-")[0].replace("__", "/") for name in ids)
    assert projects == BY_PROJECT
    runners = Counter(route.runner for route in ROUTES for _ in route.problem_ids)
    assert runners == {"pytest": 194, "django": 231, "sympy": 75}
    assert all(route.python and route.versions for route in ROUTES)


def test_exceptions_are_listed_with_their_reasons() -> None:
    exceptions = {name: why for route in ROUTES for name, why in route.exceptions.items()}
    assert Counter(name.partition("__")[0] for name in exceptions) == {"sphinx-doc": 4}
    assert sum(route.n_gradable for route in ROUTES) == 500 - len(exceptions)


def test_nothing_is_known_of_other_datasets_without_their_files() -> None:
    assert grade_routes("swebench_verified_mini", None) is None


@pytest.mark.shared
def test_the_facts_agree_with_published_rows(shared_data: Path) -> None:
    """Mini's 50 rows name versions; the facts were read from elsewhere."""
    folder = shared_data / "swebench_verified_mini"
    by_fact = {name: route for route in ROUTES for name in route.problem_ids}
    problems = stage(folder, "instances").problems
    assert len(problems) == 50
    for problem in problems:
        assert problem.repo is not None
        fact = by_fact[problem.problem_id]
        assert problem.repo.version in fact.versions
        assert (problem.repo.runner or "pytest", problem.repo.command) == (
            fact.runner,
            fact.command,
        )
    of_rows = grade_routes("swebench_verified_mini", folder) or ()
    assert {
        (route.project, route.runner, len(route.problem_ids), route.n_gradable) for route in of_rows
    } == {
        ("django/django", "django", 25, 25),
        ("sphinx-doc/sphinx", "pytest", 25, 21),
    }
