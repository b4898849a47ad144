"""Gold programs pass their own tests in the real sandbox; `python -m tests.bench.references` runs
all of every source.
"""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox import registry
from sandbox.interface import Sandbox
from sandbox.judging.runners.programs import UnittestProgram
from sandbox.judging.runners.run import run_tests
from schemas.problem import Problem
from schemas.run import Limits
from schemas.verdict import CaseVerdict, Outcome
from tasks.benchmarks.convcode.stage import stage
from tests.bench.references import CHECK_CLASHES, MBPP_FAULTS
from tests.tasks.benchmarks.convcode.raw_rows import sample

pytestmark = pytest.mark.usefixtures("bubblewrap")

LIMITS = Limits(cpu_s=10, wall_s=60)
SAMPLED = {"mbpp": 120, "mint": 40}
"""How many problems of a large source are run here."""


@pytest.fixture(scope="module")
def zygote() -> Sandbox:
    return registry.load("zygote", preload=("numpy", "pandas"))


def run_code(sandbox: Sandbox, problem: Problem, code: str) -> tuple[CaseVerdict, ...]:
    (test,) = problem.instructions[0].suite.tests
    return run_tests(sandbox, UnittestProgram(code=code, test=test), LIMITS).cases


def failing(sandbox: Sandbox, problems: list[Problem]) -> set[str]:
    """Ids of those whose gold program does not pass every test."""
    with ThreadPoolExecutor(2) as threads:
        found = threads.map(
            lambda problem: run_code(sandbox, problem, problem.reference_code), problems
        )
        passes = (all(case.outcome is Outcome.PASSED for case in cases) for cases in found)
        return {
            problem.problem_id
            for problem, passed in zip(problems, passes, strict=True)
            if not passed
        }


@pytest.mark.slow
def test_the_sample_s_gold_passes(zygote: Sandbox) -> None:
    assert failing(zygote, list(sample().problems)) == set()


@pytest.mark.slow
def test_an_empty_answer_fails_every_test_of_the_sample(zygote: Sandbox) -> None:
    cases = [case for problem in sample().problems for case in run_code(zygote, problem, "")]
    assert {case.outcome for case in cases} == {Outcome.FAILED}


def test_a_failure_names_its_test_and_shows_both_values(zygote: Sandbox) -> None:
    cases = run_code(zygote, sample().problems[0], "def task_func(numbers):\n    return 3\n")
    assert [case.name for case in cases if case.outcome is Outcome.PASSED] == [
        "TestCases.test_case_2"
    ]
    assert cases[0].name == "TestCases.test_case_1"
    assert "AssertionError: 3 != 4" in cases[0].detail


@pytest.mark.slow
@pytest.mark.shared
def test_humaneval_s_gold_passes(zygote: Sandbox, shared_data: Path) -> None:
    problems = list(stage(shared_data, "humaneval").problems)
    assert len(problems) == 164
    assert failing(zygote, problems) == set()


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("version", SAMPLED)
def test_a_sample_of_the_gold_passes(version: str, zygote: Sandbox, shared_data: Path) -> None:
    sound = [
        problem
        for problem in stage(shared_data, version).problems
        if number(problem) not in MBPP_FAULTS
    ]
    assert failing(zygote, random.Random(6).sample(sound, SAMPLED[version])) == set()


@pytest.mark.slow
@pytest.mark.shared
def test_mbpp_s_faulty_tasks_fail_but_for_those_whose_function_is_called_check(
    zygote: Sandbox, shared_data: Path
) -> None:
    """A test function `check` takes the place of theirs in the published form; in ours there is
    none.
    """
    faulty = [
        problem for problem in stage(shared_data, "mbpp").problems if number(problem) in MBPP_FAULTS
    ]
    assert len(faulty) == len(MBPP_FAULTS) == 15
    assert failing(zygote, faulty) == {f"MBPP/{task}" for task in MBPP_FAULTS - CHECK_CLASHES}


def number(problem: Problem) -> int | None:
    name, _, task = problem.problem_id.partition("/")
    return int(task) if name == "MBPP" else None
