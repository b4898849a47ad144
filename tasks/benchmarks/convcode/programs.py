"""Test runs: each round's code with the problem's complete test suite.

All tests run even if the setting shows only some of them.
"""

from collections.abc import Mapping

from schemas.dialog import Dialog
from schemas.episode import Episode
from schemas.problem import BASE_INSTRUCTION, Problem
from tasks.benchmarks.contract import TestRun
from tasks.benchmarks.extraction import python_program
from tasks.benchmarks.setting import Options
from tasks.language.markdown_code import ExtractedCode


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> tuple[TestRun, ...]:
    """Return one test run per round. `code` is None for a round without answer."""
    suite = problem.instruction(BASE_INSTRUCTION).suite
    rounds = max((step.turn for step in episode.messages), default=0)
    answers = ((turn, episode.answer(turn)) for turn in range(1, rounds + 1))
    programs = (
        (turn, None if answer is None else program_of(problem, answer, options))
        for turn, answer in answers
    )
    return tuple(
        TestRun(
            turn,
            BASE_INSTRUCTION,
            None if program is None else program.code,
            suite.tests,
            suite.kind,
            reference=problem.reference_code,
            is_readable=program is None or program.is_readable,
        )
        for turn, program in programs
    )


def program_of(problem: Problem, answer: str, options: Options) -> ExtractedCode:
    """Return the program of an answer, extracted according to the run's option."""
    return python_program(
        answer, options, problem.reference_code, problem.instruction(BASE_INSTRUCTION).suite.tests
    )


def code_of(problem: Problem, options: Options, answer: str) -> str:
    """Return the code of an answer's program."""
    return program_of(problem, answer, options).code
