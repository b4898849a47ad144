"""Unit tests that the data name on an answer (`unit_tests`), to be run in the sandbox.

Arguments: `tests`, one text or a list; `kind`, of which `asserts` (each a test of its own) is what a list is taken for, and
`statements` a text; `entry_point`, the function that `check` is called with. A row with others is quarantined.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from sandbox.judging.runners.unittest_tests import method_names
from schemas.dialog import Dialog, MetricSpec, Turn
from schemas.episode import Episode
from schemas.problem import Problem, SuiteKind
from schemas.score import UnscoredReason, reason_of
from schemas.verdict import Outcome, TestVerdict
from tasks.benchmarks.contract import Played, TestRun
from tasks.benchmarks.extraction import reads_markdown
from tasks.benchmarks.raw_lines import BadRow
from tasks.benchmarks.setting import Options
from tasks.benchmarks.unidial.convert import gold_answer
from tasks.benchmarks.unidial.metric_names import numbered_metrics
from tasks.benchmarks.unidial.rubrics import arguments_of
from tasks.language.markdown_code import ExtractedCode, entry_points, is_python, python_code
from tasks.metrics.unit_tested_code import unit_tests

KINDS = ("statements", "asserts", "check", "unittest")
ARGUMENTS = ("tests", "kind", "entry_point")
_PYTHON = re.compile(
    r"```[ \t]*py(?:thon[\d.]*)?(?:[ \t{][^\n]*)?\r?\n(.*?)```", re.DOTALL | re.IGNORECASE
)
_FENCED = re.compile(r"```[\w+-]*[ \t]*\r?\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Tests:
    """What one metric of an answer runs."""

    name: str
    """`unit_tests`, on a turn that has several `unit_tests#2` and so on: also the score's."""
    tests: tuple[str, ...]
    kind: SuiteKind
    entry_point: str


def read_tests(name: str, given: Mapping[str, Any]) -> Tests:
    """The tests that a metric's arguments describe.

    Raises:
        BadRow: unknown_tests.
    """
    if unknown := given.keys() - set(ARGUMENTS):
        raise BadRow(
            "unknown_tests",
            f"{name}: {', '.join(sorted(unknown))}: no such argument; known: {', '.join(ARGUMENTS)}",
        )
    tests, entry_point = given.get("tests"), given.get("entry_point", "")
    listed = [tests] if isinstance(tests, str) else tests
    if (
        not isinstance(listed, list)
        or not listed
        or not all(isinstance(one, str) and one.strip() for one in listed)
    ):
        raise BadRow(
            "unknown_tests", f"{name}: `tests` is a text or a list of texts, not {tests!r}"[:200]
        )
    kind = given.get("kind", "asserts" if isinstance(tests, list) else "statements")
    if (
        kind not in KINDS
        or not isinstance(entry_point, str)
        or (kind == "check" and not entry_point)
    ):
        raise BadRow(
            "unknown_tests",
            f"{name}: kind {kind!r} is none of {', '.join(KINDS)}, or check has no entry_point",
        )
    try:
        for text in listed if kind == "asserts" else ["\n".join(listed)]:
            ast.parse(text)
        if kind == "unittest":
            method_names("\n".join(listed))
    except (SyntaxError, ValueError, RecursionError) as fault:
        raise BadRow("unknown_tests", f"{name}: {fault}") from None
    return Tests(
        name, tuple(listed), next(one for one in get_args(SuiteKind) if one == kind), entry_point
    )


def tests_of(turn: Turn) -> Iterator[Tests]:
    """The tests of an answer, numbered as its scores are. Raises: as `read_tests`."""
    for spec, name in numbered_metrics(turn):
        if is_tested(spec):
            yield read_tests(name, arguments_of(spec))


def is_tested(spec: MetricSpec) -> bool:
    """Whether the metric runs programs."""
    return spec.name == unit_tests.name


def has_tests(dialog: Dialog) -> bool:
    """Whether an answer of the dialogue is a program with tests."""
    return any(
        is_tested(spec) for turn in dialog.turns if turn.is_generated for spec in turn.metrics
    )


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> tuple[TestRun, ...]:
    """A program for each `unit_tests` of each answer that the model gives."""
    return tuple(
        _test_run(problem, turn.turn, tests, episode.answer(turn.turn), options)
        for turn in dialog.turns
        if turn.is_generated
        for tests in tests_of(turn)
    )


def _test_run(
    problem: Problem, turn: int, tests: Tests, answer: str | None, options: Options
) -> TestRun:
    reference = _code(gold_answer(problem, turn)) or None
    program = None if answer is None else _program(answer, tests, reference or "", options)
    return TestRun(
        turn,
        tests.name,
        None if program is None else program.code,
        tests.tests,
        tests.kind,
        tests.entry_point,
        reference=reference,
        is_readable=program is None or program.is_readable,
    )


def _program(answer: str, tests: Tests, reference: str, options: Options) -> ExtractedCode:
    if reads_markdown(options):
        names = (tests.entry_point,) if tests.entry_point else entry_points(reference, tests.tests)
        return python_code(answer, names)
    code = _code(answer) or ""
    return ExtractedCode(
        code, is_readable=code is not answer or not answer.strip() or is_python(answer)
    )


def _code(answer: str | None) -> str | None:
    """The first block tagged py, python or python3, in either case; else the first block, else the whole answer."""
    if answer is None:
        return None
    block = _PYTHON.search(answer) or _FENCED.search(answer)
    return block.group(1) if block else answer


def tested(played: Played, turn: Turn, name: str) -> float | UnscoredReason:
    """The share of a metric's tests that an answer passes, or why there is none."""
    verdict = next(
        (one for one in played.verdicts if (one.turn, one.instruction_id) == (turn.turn, name)),
        None,
    )
    if verdict is None or verdict.outcome is Outcome.INFRA:
        return UnscoredReason.INFRA
    if verdict.outcome is Outcome.UNSCORED:
        return UnscoredReason.TOOLCHAIN_MISSING
    if verdict.outcome is Outcome.ERROR:
        return reason_of(played.episode, turn.turn)
    return unit_tests(*_counted(verdict))


def _counted(verdict: TestVerdict) -> tuple[int, int]:
    return (
        (verdict.n_passed or 0, verdict.n_cases)
        if verdict.n_cases
        else (int(verdict.outcome is Outcome.PASSED), 1)
    )
