"""Programs to execute: each round's code with the problem's whole test suite, even where the setting shows a part of it."""

from collections.abc import Mapping

from schemas.dialog import Dialog
from schemas.episode import Episode
from schemas.problem import BASE_INSTRUCTION, Problem
from tasks.benchmarks.contract import TestRun
from tasks.language.code_block import first_python_block


def test_runs(problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]) -> tuple[TestRun, ...]:
    """One run for each round that took place; `code` is None where the round has no answer."""
    suite = problem.instruction(BASE_INSTRUCTION).suite
    rounds = max((step.turn for step in episode.messages), default=0)
    return tuple(
        TestRun(
            turn,
            BASE_INSTRUCTION,
            None if answer is None else first_python_block(answer),
            suite.tests,
            suite.kind,
            reference=problem.reference_code,
        )
        for turn, answer in ((turn, episode.answer(turn)) for turn in range(1, rounds + 1))
    )
