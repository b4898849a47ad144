"""Test runs of a dialogue: the program of each answer, with the tests that decide the turn."""

from collections.abc import Mapping, Sequence

from schemas.dialog import Dialog
from schemas.episode import Episode, Step
from schemas.problem import Problem
from schemas.verdict import CaseVerdict, Outcome
from tasks.benchmarks.codeif.repository import place_of, source_of
from tasks.benchmarks.codeif.settings import (
    ANSWER_CLEANUP,
    DYNAMIC,
    TWO_ROUND,
    UPSTREAM_V0,
    reviewed_instructions,
)
from tasks.benchmarks.codeif.strategies import tested_instructions
from tasks.benchmarks.contract import TestRun
from tasks.benchmarks.program_runs import base_program
from tasks.benchmarks.setting import Options
from tasks.dialogue.reviewed_subject import Review
from tasks.dialogue.tools import WantedProgram
from tasks.language.markdown_code import ExtractedCode, upstream_v0_cleanup


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> tuple[TestRun, ...]:
    """Return the test runs of each turn's answer, in the order of turns.

    A function task has one run for each instruction, a repository task one run for all of them. The
    paper runs all tests in one growing program, which passes exactly if each of these runs passes.
    """
    runs: list[TestRun] = []
    for turn, names in enumerate(tested_by_turn(episode, dialog), 1):
        program, reference = _code(problem, episode, turn, options), problem.reference_code
        if source_of(dialog) is None:
            suites = {name: problem.instruction(name).suite for name in names}
            runs += [
                TestRun.of(turn, name, program, suite.tests, reference=reference)
                for name, suite in suites.items()
            ]
        else:
            place, decides = place_of(problem, dialog, names)
            nodes = _nodes(decides)
            runs.append(TestRun.in_place(turn, program, nodes, place, decides, reference))
    return tuple(runs)


def _nodes(decides: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node for nodes in decides.values() for node in nodes))


def tested_by_turn(episode: Episode, dialog: Dialog) -> Sequence[tuple[str, ...]]:
    """Return, for each turn, the instructions whose tests are run on the answer.

    Static: all instructions given so far. Two rounds: the turn's own instruction. Dynamic: all
    instructions that a review covers, for each turn that was played.
    """
    ids = dialog.instruction_ids
    if episode.setting == DYNAMIC:
        rounds = max((step.turn for step in episode.messages), default=0)
        return [reviewed_instructions(ids)] * rounds
    if episode.setting == TWO_ROUND:
        return [(name,) for name in ids]
    return [tested_instructions(ids, turn) for turn in range(1, len(ids) + 1)]


def wanted_programs(
    problem: Problem, dialog: Dialog, names: Sequence[str], answer: str, options: Options
) -> tuple[WantedProgram, ...]:
    """Return the programs to run during the dialogue, because a reviewer needs their results.

    They run the same tests as the final scoring.
    """
    code = base_program(problem, answer, options).code
    if source_of(dialog) is not None:
        place, decides = place_of(problem, dialog, names)
        return (WantedProgram("pytest", code, _nodes(decides), place),)
    suites = (problem.instruction(name).suite for name in names)
    return tuple(WantedProgram(suite.kind, code, suite.tests) for suite in suites)


def reviews(
    problem: Problem, dialog: Dialog, names: Sequence[str], answer: Step
) -> Mapping[str, Review]:
    """Return the review of each instruction, read from the reports of `wanted_programs`."""
    if source_of(dialog) is None:
        return {
            name: Review(report.outcome is Outcome.PASSED, report.detail)
            for name, report in zip(names, answer.programs, strict=True)
        }
    (report,) = answer.programs
    cases = {case.name: case for case in report.cases}
    _, decides = place_of(problem, dialog, names)
    return {name: _review([cases[node] for node in nodes]) for name, nodes in decides.items()}


def _review(cases: Sequence[CaseVerdict]) -> Review:
    failures = [case for case in cases if case.outcome is not Outcome.PASSED]
    return Review(not failures, "" if not failures else f"{failures[0].name}\n{failures[0].detail}")


def _code(problem: Problem, episode: Episode, turn: int, options: Options) -> ExtractedCode | None:
    answer = episode.answer(turn)
    if answer is None:
        return None
    extracted = base_program(problem, answer, options)
    # Upstream left base answers unchanged and cleaned only the follow-ups.
    if options.get(ANSWER_CLEANUP) == UPSTREAM_V0 and turn > 1:
        return ExtractedCode(upstream_v0_cleanup(extracted.code), extracted.is_readable)
    return extracted
