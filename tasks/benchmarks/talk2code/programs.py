"""Test runs of a dialogue: its delivered program is run with each of the task's test cases."""

from collections.abc import Mapping

from schemas.dialog import Dialog, Role
from schemas.episode import Episode, StopReason
from schemas.problem import Problem
from tasks.benchmarks.contract import TestRun
from tasks.benchmarks.setting import Options
from tasks.benchmarks.talk2code.languages import (
    LANGUAGE_OF,
    LANGUAGES,
    case_runs,
    delivery_of,
    program_of,
)
from tasks.benchmarks.talk2code.settings import is_interactive
from tasks.benchmarks.talk2code.stage import ENTRY_POINT, LANGUAGE


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> tuple[TestRun, ...]:
    """Return the test runs of the program from the round in which it is due.

    The runs' `code` is None if there is no program.
    """
    suite = problem.instructions[0].suite
    language = LANGUAGE_OF[suite.kind]
    if is_interactive(episode.setting):
        return case_runs(
            *delivery(dialog, episode, options), suite.tests, language, problem.reference_code
        )
    turn = last_round(dialog)
    answer = episode.answer(turn)
    if answer is None:
        return case_runs(turn, None, suite.tests, language, problem.reference_code)
    program = program_of(answer, language, dict(dialog.labels)[ENTRY_POINT], options)
    return case_runs(
        turn, program.code, suite.tests, language, problem.reference_code, program.is_readable
    )


def delivery(dialog: Dialog, episode: Episode, options: Options) -> tuple[int, str | None]:
    """Return the program that an interactive dialogue delivered, and its round.

    Without a program, the code is None, and the round is the last one, or the first without an
    answer if the dialogue was cut off.
    """
    labels = dict(dialog.labels)
    answers = [step for step in episode.messages if step.role is Role.ASSISTANT]
    for answer in answers:
        if code := delivery_of(
            answer.content, LANGUAGES[labels[LANGUAGE]], labels[ENTRY_POINT], options
        ):
            return answer.turn, code
    last = max((answer.turn for answer in answers), default=0)
    return (last if episode.stop_reason is StopReason.TURN_LIMIT else last + 1), None


def last_round(dialog: Dialog) -> int:
    """Return the round of the golden dialogue in which the code is due."""
    return max(turn.turn for turn in dialog.turns)


def gold_answer(problem: Problem, turn: int) -> str:
    """Return the reference in a code block of its language, the same in every round."""
    return (
        f"```{LANGUAGE_OF[problem.instructions[0].suite.kind].name}\n{problem.reference_code}\n```"
    )
