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
from tasks.language.markdown_code import ExtractedCode


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> tuple[TestRun, ...]:
    """Return the test runs of the program from the round in which it is due.

    The runs' `code` is None if there is no program.
    """
    suite = problem.instructions[0].suite
    language = LANGUAGE_OF[suite.kind]
    if is_interactive(episode.setting):
        turn, code = delivery(dialog, episode, options)
        program = None if code is None else ExtractedCode(code)
    else:
        turn = last_round(dialog)
        answer, entry_point = episode.answer(turn), dict(dialog.labels)[ENTRY_POINT]
        program = None if answer is None else program_of(answer, language, entry_point, options)
    return case_runs(turn, program, suite.tests, language, problem.reference_code)


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
