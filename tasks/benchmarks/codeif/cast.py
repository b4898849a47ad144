"""Participants of a dialogue (CodeIF-Bench section 3.1), and the test runs of its answers.

The user follows a script, or reviews each answer by the reports of the tests that decide the turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from schemas.dialog import Dialog, HistoryPolicy, Role
from schemas.episode import Episode, Step
from schemas.problem import BASE_INSTRUCTION, Problem
from schemas.verdict import CaseVerdict, Outcome
from tasks.benchmarks.codeif.settings import (
    ANSWER_CLEANUP,
    CONTEXT_TOKENS,
    DYNAMIC,
    HISTORY,
    PROMPTS,
    REVIEW_PROMPTS,
    SETTINGS,
    TWO_ROUND,
    UPSTREAM_V0,
    most_rounds,
    reviewed_instructions,
    tested_instructions,
)
from tasks.benchmarks.codeif.stage import context_from, place_of, source_of, within_budget
from tasks.benchmarks.contract import TestRun
from tasks.benchmarks.program_runs import base_program
from tasks.benchmarks.setting import CastRequest, Options, scripted_cast
from tasks.dialogue.engine import Cast
from tasks.dialogue.reviewed_subject import InstructionReviewer, Review, ReviewedSubject
from tasks.dialogue.tools import WantedProgram
from tasks.language.markdown_code import ExtractedCode, upstream_v0_cleanup
from tasks.language.prompt import fill


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
            run = TestRun.of(
                turn, "", program, _nodes(decides), "pytest", place.entry_point, reference
            )
            placed = {"tree": place.tree, "limits": place.limits, "placing": place.placing}
            runs.append(replace(run, decides=decides, **placed))
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


def cast(request: CastRequest) -> Cast:
    """Return the participants of a setting.

    A scripted user has access to the dialog's texts, but not to tests or reference code. A reviewer
    also reads the reports of the tests.
    """
    if request.setting == DYNAMIC:
        return _dynamic(request)
    history = history_of(request.dialog, request.options) or SETTINGS[request.setting].history
    return scripted_cast(
        request.subject_participant(history), planned_texts(request.dialog, request.options)
    )


def history_of(dialog: Dialog, options: Options) -> HistoryPolicy | None:
    """Return the history that an option selects; None if the setting has no such option."""
    return HistoryPolicy(options[HISTORY]) if HISTORY in options else None


def _dynamic(request: CastRequest) -> Cast:
    ids = request.dialog.instruction_ids
    texts = dict(zip(ids, planned_texts(request.dialog, request.options), strict=True))
    instructions = reviewed_instructions(ids)
    subject = ReviewedSubject(
        chat=request.subject_participant(),
        programs=request.programs,
        programs_of=lambda _, answer: wanted_programs(
            request.problem, request.dialog, instructions, answer, request.options
        ),
    )
    reviewer = InstructionReviewer(
        instructions=instructions,
        read=partial(reviews, request.problem, request.dialog, instructions),
        ask=texts.__getitem__,
        complain=partial(_feedback, texts),
    )
    return Cast(subject=subject, counterpart=reviewer, max_turns=most_rounds(ids))


def _feedback(texts: dict[str, str], instruction_id: str, output: str) -> str:
    return fill(
        REVIEW_PROMPTS["feedback"], requirement=texts[instruction_id], output=output or "no output"
    )


def planned_texts(dialog: Dialog, options: Options) -> tuple[str, ...]:
    """Return the user's messages in order, with contexts cut to the option `context_tokens`."""
    limit = options.get(CONTEXT_TOKENS, "all")
    return user_texts(dialog, None if limit == "all" else int(limit))


def user_texts(dialog: Dialog, context_tokens: int | None = None) -> tuple[str, ...]:
    """Return the user's messages in order.

    Args:
        dialog: the staged dialog.
        context_tokens: maximum tokens of the golden contexts in the first message; None for no
            limit.
    """
    return tuple(
        fill(
            PROMPTS["base"],
            task=within_budget(turn.content or "", context_from(dialog), context_tokens),
        )
        if turn.instruction_id == BASE_INSTRUCTION
        else fill(PROMPTS["follow_up"], requirement=turn.content or "")
        for turn in dialog.turns
        if turn.role is Role.USER
    )
