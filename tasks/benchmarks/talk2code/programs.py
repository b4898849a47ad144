"""Programs to execute: the delivered code with the task's cases, one by one."""

from collections.abc import Mapping

from schemas.dialog import Dialog, Role
from schemas.episode import Episode, StopReason
from schemas.problem import Problem
from tasks.benchmarks.contract import TestRun
from tasks.benchmarks.setting import Options
from tasks.benchmarks.talk2code.extraction import delivery_of, program_of
from tasks.benchmarks.talk2code.languages import LANGUAGE_OF, LANGUAGES, case_runs
from tasks.benchmarks.talk2code.settings import is_interactive
from tasks.benchmarks.talk2code.stage import ENTRY_POINT, LANGUAGE


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> tuple[TestRun, ...]:
    """The cases on the program of the round in which it is due; its `code` is None where there is none."""
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
    """The round in which an interactive dialogue brought its program, and that program.

    None for the program of a dialogue that brought none; its round is then the last one, or the one that never was answered.
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
    """The round of the golden dialogue in which the code is due."""
    return max(turn.turn for turn in dialog.turns)


def gold_answer(problem: Problem, turn: int) -> str:
    """The reference in a code block of its language, in any round."""
    return (
        f"```{LANGUAGE_OF[problem.instructions[0].suite.kind].name}\n{problem.reference_code}\n```"
    )
