"""Programs to execute: the dialogue's patch, graded by the tests of both lists."""

from collections.abc import Mapping

from sandbox.workspace.interface import image_of
from schemas.dialog import Dialog
from schemas.episode import Episode, StopReason
from schemas.problem import Problem
from tasks.benchmarks.contract import TestRun
from tasks.benchmarks.patches import final_patch

FAIL_TO_PASS, PASS_TO_PASS = "fail_to_pass", "pass_to_pass"


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> tuple[TestRun, ...]:
    """Return one run of the tests, with a verdict for each list that is not empty."""
    assert problem.repo is not None
    turn, patch = final_patch(episode)
    lists = {FAIL_TO_PASS: problem.repo.fail_to_pass, PASS_TO_PASS: problem.repo.pass_to_pass}
    return (
        TestRun(
            turn=turn,
            instruction_id="",
            code=None if episode.stop_reason is StopReason.INFRA else patch,
            tests=problem.instructions[0].suite.tests,
            kind="patch",
            repository=problem.repo,
            image=image_of(problem.repo.environment),
            decides={name: tests for name, tests in lists.items() if tests},
            reference=problem.reference_code,
        ),
    )


def gold_answer(problem: Problem, turn: int) -> str:
    """Return the project's own fix as a unified diff."""
    return problem.reference_code
