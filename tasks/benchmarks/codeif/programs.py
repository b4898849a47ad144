"""Programs to execute: each turn's answer with the tests that decide it, one program for each instruction."""

from collections.abc import Mapping, Sequence

from schemas.dialog import Dialog
from schemas.episode import Episode
from schemas.problem import Problem
from tasks.benchmarks.codeif.settings import ANSWER_CLEANUP, DYNAMIC, TWO_ROUND, UPSTREAM_V0, reviewed_instructions
from tasks.benchmarks.codeif.strategies import tested_instructions
from tasks.benchmarks.contract import TestRun
from tasks.dialogue.programs import WantedProgram
from tasks.language.code_block import first_python_block, upstream_v0_cleanup


def test_runs(problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]) -> tuple[TestRun, ...]:
    """One run for each instruction's tests on each turn's answer, in turn order.

    Tests run alone instead of in one growing program: the cumulative program passes exactly when each of them passes.
    """
    return tuple(
        TestRun(turn=turn, instruction_id=name, code=code, tests=problem.instruction(name).suite.tests)
        for turn, names in enumerate(tested_by_turn(episode, dialog), 1)
        for code in (_code(episode, turn, options),)
        for name in names
    )


def tested_by_turn(episode: Episode, dialog: Dialog) -> Sequence[tuple[str, ...]]:
    """Instructions whose tests are run on each turn's answer.

    Static: those given so far. Two rounds: the turn's own. Dynamic: all that a review reads, of each turn that took place.
    """
    ids = dialog.instruction_ids
    if episode.setting == DYNAMIC:
        rounds = max((step.turn for step in episode.messages), default=0)
        return [reviewed_instructions(ids)] * rounds
    if episode.setting == TWO_ROUND:
        return [(name,) for name in ids]
    return [tested_instructions(ids, turn) for turn in range(1, len(ids) + 1)]


def wanted_programs(problem: Problem, names: Sequence[str], answer: str) -> tuple[WantedProgram, ...]:
    """The same programs for a review while the dialogue goes on."""
    code = first_python_block(answer)
    suites = (problem.instruction(name).suite for name in names)
    return tuple(WantedProgram(suite.kind, code, suite.tests) for suite in suites)


def _code(episode: Episode, turn: int, options: Mapping[str, str]) -> str | None:
    answer = episode.answer(turn)
    if answer is None:
        return None
    code = first_python_block(answer)
    # Upstream judged base answers as they were and cleaned only the follow-ups.
    return upstream_v0_cleanup(code) if options.get(ANSWER_CLEANUP) == UPSTREAM_V0 and turn > 1 else code
