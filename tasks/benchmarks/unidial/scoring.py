"""Scores of the metrics that the data define for each answer, and result tables.

The result tables have the paper's pooled statistics, and figures with and without agents.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, Literal, cast

from schemas.dialog import Dialog, MetricSpec, Turn
from schemas.score import Score, UnscoredReason, reason_of
from tasks.benchmarks.contract import Due, Played, ScoreRequest, missing_rating
from tasks.benchmarks.setting import Option, Options
from tasks.benchmarks.unidial.convert import REFERENCES, label_of
from tasks.benchmarks.unidial.programs import is_tested, numbered_metrics, test_share
from tasks.benchmarks.unidial.rubrics import JUDGE, arguments_of, rubric_of, scale_of
from tasks.metrics.code_rules import code_match
from tasks.metrics.registry import Metric
from tasks.metrics.text_match import (
    exact_match,
    f1_score,
    llm_judge,
    numeric_match,
    precision,
    word_recall,
)
from tasks.metrics.unit_tested_code import unit_tests
from tasks.metrics.verifiable_instructions import instruction_following, instruction_following_loose
from warehouse.wide_tables import Column, WideTable, result_columns

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
