"""Scores of the metrics that the data define for each answer, their unit tests, and result tables.

The result tables have the paper's pooled statistics, and figures with and without agents.

Unit tests (metric `unit_tests`) run in the sandbox. Arguments of the metric: `tests` is a text or a
list of texts. `kind` defaults to `asserts` for a list (each element is a test) and to `statements`
for a text. `entry_point` is the function passed to `check`. A row with other arguments is
quarantined.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, cast, get_args

from sandbox.judging.runners.python_tests import method_names
from schemas.dialog import Dialog, MetricSpec, Turn
from schemas.episode import Episode, Score, UnscoredReason, reason_of
from schemas.problem import Problem, SuiteKind
from schemas.verdict import Outcome, TestVerdict
from tasks.benchmarks.contract import Due, Played, ScoreRequest, TestRun, missing_rating
from tasks.benchmarks.program_runs import reads_markdown
from tasks.benchmarks.raw_rows import BadRow
from tasks.benchmarks.setting import Option, Options
from tasks.benchmarks.unidial.convert import REFERENCES, label_of
from tasks.benchmarks.unidial.rubrics import JUDGE, arguments_of, rubric_of, scale_of
from tasks.language.markdown_code import ExtractedCode, entry_points, is_python, python_code
from tasks.metrics.code_rules import code_match, unit_tests
from tasks.metrics.registry import Metric
from tasks.metrics.text_match import (
    exact_match,
    f1_score,
    llm_judge,
    numeric_match,
    precision,
    word_recall,
)
from tasks.metrics.verifiable_instructions import instruction_following, instruction_following_loose
from warehouse.wide_tables import Column, WideTable, result_columns


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


def gold_answer(problem: Problem, turn: int) -> str | None:
    """Return the reference of a round, or None if there is none."""
    return json.loads(problem.reference_code or "{}").get(str(turn))


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


RECALL = "recall"
METRICS: Mapping[str, Metric[..., Any]] = {
    **{
        metric.name: metric
        for metric in (
            llm_judge,
            exact_match,
            f1_score,
            precision,
            numeric_match,
            instruction_following,
            code_match,
        )
    },
    RECALL: word_recall,
    unit_tests.name: unit_tests,
}
"""Metrics by their name in the data."""
CODE_READING = Option(
    name="code_reading",
    values=("original", "ude"),
    default="original",
    affects="scoring",
    help=(
        "rules on objects that a program lacks: ignored as in MemoryCode, or counted as broken as "
        "in UniDial-EvalKit"
    ),
)
RANGES = {llm_judge.name: (-10.0, 10.0)}
"""Range of ratings. Parley's judges give values in [0, 1].

An imported run keeps the values of UniDial-EvalKit, which may lie outside its rating scale.
"""
LOOSE: Mapping[str, Metric[..., float | None]] = {"multi_if": instruction_following_loose}
"""Setting -> second metric that the dataset's authors publish besides `instruction_following`.

Pooled statistics exclude the second metric.
"""
Value = float | UnscoredReason | None


def due(setting: str, options: Options, dialog: Dialog) -> Due:
    """Return the metrics of each answer by the model."""
    answers = [turn for turn in dialog.turns if turn.is_generated]
    turns = tuple(turn.turn for turn in answers)
    scores = frozenset(
        (turn.turn, metric.name)
        for turn in answers
        for spec in turn.metrics
        for metric in _metrics(setting, spec)
    )
    return Due(len(turns), scores, turns=turns)


def _metrics(setting: str, spec: MetricSpec) -> Sequence[Metric[..., Any]]:
    """Return the metric that the data name, and the setting's second version of it, if any."""
    loose = (
        (LOOSE[setting],) if setting in LOOSE and spec.name == instruction_following.name else ()
    )
    return (METRICS[spec.name], *loose)


def score(request: ScoreRequest) -> Sequence[Score]:
    """Return the scores of all dialogues."""
    return [row for played in request.played for row in _scores(request, played)]


def _scores(request: ScoreRequest, played: Played) -> Iterator[Score]:
    for turn in played.dialog.turns:
        if not turn.is_generated:
            continue
        for spec, instruction_id in numbered_metrics(turn):
            for metric in _metrics(request.setting, spec):
                has_tests = is_tested(spec)
                value = (
                    test_share(played, turn, instruction_id)
                    if has_tests
                    else _value(request.options, played, turn, spec, metric)
                )
                result = UnscoredReason.UNDEFINED if value is None else value
                name = (
                    instruction_id.replace(spec.name, metric.name, 1)
                    if metric in LOOSE.values()
                    else instruction_id
                )
                yield request.row(played, metric, result, turn=turn.turn, instruction_id=name)


def _value(
    options: Options, played: Played, turn: Turn, spec: MetricSpec, metric: Metric[..., Any]
) -> Value:
    answer = played.episode.answer(turn.turn)
    if answer is None:
        return reason_of(played.episode, turn.turn)
    arguments = arguments_of(spec)
    if spec.name == JUDGE:
        return _rating(played, turn, rubric_of(arguments))
    if spec.name == instruction_following.name:
        return metric(answer, str(arguments.get("inst_name", "")), arguments.get("inst_args") or {})
    if spec.name == code_match.name:
        reading = cast(
            "Literal['original', 'ude']", options.get(CODE_READING.name, CODE_READING.default)
        )
        return code_match(answer, arguments.get("regex") or [], reading)
    references = label_of(turn, REFERENCES) or ([] if turn.reference is None else [turn.reference])
    if not references:
        return UnscoredReason.SOURCE_MISSING
    return _compared(spec.name, answer, references, arguments)


def _compared(
    metric: str, answer: str, references: Sequence[str], arguments: Mapping[str, Any]
) -> float:
    if metric == RECALL:
        return word_recall(answer, references, bool(arguments.get("binary")))
    if metric == f1_score.name:
        return f1_score(answer, references[0], bool(arguments.get("multi_answer")))
    if metric == exact_match.name:
        marks = (
            str(arguments.get(f"split_special_{which}_token") or "") for which in ("start", "end")
        )
        return exact_match(answer, references[0], *marks)
    return (numeric_match if metric == numeric_match.name else precision)(answer, references[0])


def _rating(played: Played, turn: Turn, rubric: str) -> Value:
    judged = next(
        (
            judgement
            for judgement in played.judgements
            if (judgement.turn, judgement.rubric) == (turn.turn, rubric)
        ),
        None,
    )
    if judged is None or judged.value is None:
        return missing_rating(judged)
    scale = scale_of(rubric)
    return llm_judge(judged.value, scale.worst, scale.best)


_POOLED = files("tasks.benchmarks.unidial") / "marts" / "unidial_pooled.sql"
_NAME_LENGTH = "length(pooled.model) - coalesce(length(runs.spec_json ->> '$.agent.name') + 1, 0)"

AGENTS = WideTable(
    name="unidial_agents",
    grain="One row per run x way of pooling: the model without its agent, the agent (NULL for"
    " none), and the figure over all dialogues.",
    key=("run_id", "turn_stat", "dialog_stat", "dataset_level"),
    columns=result_columns("run_id benchmark model")
    | {
        "base_model": Column("base_model", "Model without its agent."),
        "agent": Column("agent", "Agent around the model; NULL without one."),
    }
    | result_columns(
        "dataset setting dataset_version turn_stat dialog_stat dataset_level count mean min "
        "max n_unscored"
    )
    | result_columns("sandbox isolated task_share"),
    source=f"""from (
    select
        pooled.*, left(pooled.model, {_NAME_LENGTH}) as base_model,
        runs.spec_json ->> '$.agent.name' as agent
    from unidial_pooled as pooled
    inner join runs on pooled.run_id = runs.run_id
    where pooled.grouping = 'global'
)""",
    base=_POOLED,
)
MARTS = (_POOLED, AGENTS)
