"""Programs to execute: each turn's answer with the tests of the instructions so far, one program for each instruction."""

from collections.abc import Mapping

from schemas.dialog import Dialog
from schemas.episode import Episode
from schemas.problem import Problem
from tasks.benchmarks.codeif.strategies import tested_instructions
from tasks.benchmarks.contract import TestRun
from tasks.language.code_block import first_python_block, upstream_v0_cleanup

ANSWER_CLEANUP = "answer_cleanup"
UPSTREAM_V0 = "upstream_v0"


def test_runs(problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]) -> tuple[TestRun, ...]:
    """One run for each instruction's tests on each turn's answer, in turn order.

    Tests run alone instead of in one growing program: the cumulative program passes exactly when each of them passes.
    """
    ids = dialog.instruction_ids
    return tuple(
        TestRun(turn=turn, instruction_id=name, code=code, tests=problem.instruction(name).suite.tests)
        for turn, code in ((turn, _code(episode, turn, options)) for turn in range(1, len(ids) + 1))
        for name in tested_instructions(ids, turn)
    )


def _code(episode: Episode, turn: int, options: Mapping[str, str]) -> str | None:
    answer = episode.answer(turn)
    if answer is None:
        return None
    code = first_python_block(answer)
    # Upstream judged base answers as they were and cleaned only the follow-ups.
    return upstream_v0_cleanup(code) if options.get(ANSWER_CLEANUP) == UPSTREAM_V0 and turn > 1 else code
