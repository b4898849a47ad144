"""Unit tests that the data define for an answer (metric `unit_tests`), run in the sandbox.

Arguments of the metric: `tests` is a text or a list of texts. `kind` defaults to `asserts` for a
list (each element is a test) and to `statements` for a text. `entry_point` is the function passed
to `check`. A row with other arguments is quarantined.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from sandbox.judging.runners.python_tests import method_names
from schemas.dialog import Dialog, MetricSpec, Turn
from schemas.episode import Episode, UnscoredReason
from schemas.problem import Problem, SuiteKind
from schemas.verdict import Outcome, TestVerdict
from tasks.benchmarks.contract import Played, TestRun
from tasks.benchmarks.program_runs import reads_markdown
from tasks.benchmarks.raw_rows import BadRow
from tasks.benchmarks.setting import Options
from tasks.benchmarks.unidial.convert import gold_answer
from tasks.benchmarks.unidial.rubrics import arguments_of
from tasks.language.markdown_code import ExtractedCode, entry_points, is_python, python_code
from tasks.metrics.unit_tested_code import unit_tests


def numbered_metrics(turn: Turn) -> Iterator[tuple[MetricSpec, str]]:
    """Yield the metrics of an answer with their score names.

    A repeated name gets the suffix `#2`.
    """
    names: list[str] = []
    for spec in turn.metrics:
        name = full_name(spec)
        names.append(name)
        yield spec, name if names.count(name) == 1 else f"{name}#{names.count(name)}"


def full_name(spec: MetricSpec) -> str:
    """Return the metric's name, with `->NAME` if an argument names the measured property.

    Example: `instruction_following->keywords:existence`.
    """
    named = (
        value
        for key, value in arguments_of(spec).items()
        if "name" in key.lower() and isinstance(value, str)
    )
    first = next(named, None)
    return spec.name if first is None else f"{spec.name}->{first}"


KINDS = ("statements", "asserts", "check", "unittest")
ARGUMENTS = ("tests", "kind", "entry_point")
_PYTHON = re.compile(
    r"```[ \t]*py(?:thon[\d.]*)?(?:[ \t{][^\n]*)?\r?\n(.*?)```", re.DOTALL | re.IGNORECASE
)
_FENCED = re.compile(r"```[\w+-]*[ \t]*\r?\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class AnswerTests:
    """Tests of one metric of an answer."""

    name: str
    """Name of the score: `unit_tests`, or `unit_tests#2` and so on if a turn has several."""
    tests: tuple[str, ...]
    kind: SuiteKind
    entry_point: str


def read_tests(name: str, arguments: Mapping[str, Any]) -> AnswerTests:
    """Return the tests that a metric's arguments describe.

    Raises:
        BadRow: unknown_tests.
    """
    if unknown := arguments.keys() - set(ARGUMENTS):
        raise BadRow(
            "unknown_tests",
            f"{name}: unknown argument {', '.join(sorted(unknown))}. "
            f"Known arguments: {', '.join(ARGUMENTS)}",
        )
    tests, entry_point = arguments.get("tests"), arguments.get("entry_point", "")
    texts = [tests] if isinstance(tests, str) else tests
    if (
        not isinstance(texts, list)
        or not texts
        or not all(isinstance(text, str) and text.strip() for text in texts)
    ):
        raise BadRow(
            "unknown_tests",
            f"{name}: `tests` must be a text or a list of texts, not {tests!r}"[:200],
        )
    kind = arguments.get("kind", "asserts" if isinstance(tests, list) else "statements")
    if (
        kind not in KINDS
        or not isinstance(entry_point, str)
        or (kind == "check" and not entry_point)
    ):
        raise BadRow(
            "unknown_tests",
            f"{name}: kind {kind!r} is not one of {', '.join(KINDS)}, or check has no entry_point",
        )
    try:
        for text in texts if kind == "asserts" else ["\n".join(texts)]:
            ast.parse(text)
        if kind == "unittest":
            method_names("\n".join(texts))
    except (SyntaxError, ValueError, RecursionError) as fault:
        raise BadRow("unknown_tests", f"{name}: {fault}") from None
    return AnswerTests(
        name,
        tuple(texts),
        next(known_kind for known_kind in get_args(SuiteKind) if known_kind == kind),
        entry_point,
    )


def tests_of(turn: Turn) -> Iterator[AnswerTests]:
    """Yield the tests of an answer, named like its scores.

    Raises:
        BadRow: unknown_tests.
    """
    for spec, name in numbered_metrics(turn):
        if is_tested(spec):
            yield read_tests(name, arguments_of(spec))


def is_tested(spec: MetricSpec) -> bool:
    """Return True if the metric runs programs."""
    return spec.name == unit_tests.name


def has_tests(dialog: Dialog) -> bool:
    """Return True if an answer of the dialogue is a program with tests."""
    return any(
        is_tested(spec) for turn in dialog.turns if turn.is_generated for spec in turn.metrics
    )


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> tuple[TestRun, ...]:
    """Return a test run for each `unit_tests` metric of each answer by the model."""
    return tuple(
        _test_run(problem, turn.turn, tests, episode.answer(turn.turn), options)
        for turn in dialog.turns
        if turn.is_generated
        for tests in tests_of(turn)
    )


def _test_run(
    problem: Problem, turn: int, tests: AnswerTests, answer: str | None, options: Options
) -> TestRun:
    reference = _code(gold_answer(problem, turn)) or None
    program = None if answer is None else _program(answer, tests, reference or "", options)
    return TestRun.of(
        turn, tests.name, program, tests.tests, tests.kind, tests.entry_point, reference
    )


def _program(answer: str, tests: AnswerTests, reference: str, options: Options) -> ExtractedCode:
    if reads_markdown(options):
        names = (tests.entry_point,) if tests.entry_point else entry_points(reference, tests.tests)
        return python_code(answer, names)
    code = _code(answer) or ""
    return ExtractedCode(
        code, is_readable=code is not answer or not answer.strip() or is_python(answer)
    )


def _code(answer: str | None) -> str | None:
    """Return an answer's first block tagged as Python, else its first block, else all of it."""
    if answer is None:
        return None
    block = _PYTHON.search(answer) or _FENCED.search(answer)
    return block.group(1) if block else answer


def test_share(played: Played, turn: Turn, name: str) -> float | UnscoredReason:
    """Return the share of a metric's tests that an answer passes, or why there is none."""
    verdict = next(
        (
            verdict
            for verdict in played.verdicts
            if (verdict.turn, verdict.instruction_id) == (turn.turn, name)
        ),
        None,
    )
    if verdict is None:
        return UnscoredReason.INFRA
    return played.missing_result(verdict, turn.turn) or unit_tests(*_counted(verdict))


def _counted(verdict: TestVerdict) -> tuple[int, int]:
    return (
        (verdict.n_passed or 0, verdict.n_cases)
        if verdict.n_cases
        else (int(verdict.outcome is Outcome.PASSED), 1)
    )
