"""Rules for judgements and scores.

Each expected judgement exists once, with a value of its rubric, or with a reason if it is
unreadable. Each metric has exactly one score per round: a value in the metric's range, or the
reason why there is none. Metrics do not contradict each other.
"""

import math
from typing import Any

import pyarrow as pa

from schemas.score import UnscoredReason
from warehouse.checks.rule import (
    CheckContext,
    FrameRules,
    Implication,
    Row,
    Suite,
    at_least,
    each_present,
    expected,
    few_faults,
    no_fault,
    not_empty,
    of_its_episode,
    of_run,
    one_of,
    one_value,
    plain_rows,
    present,
    turn_exists,
    unique,
    whole_table,
)

_SCORE = ("episode_id", "turn", "metric")
_plain_scores = plain_rows(
    *("run_id", "benchmark", "model", *_SCORE, "problem_id", "sample"),
    "instruction_id",
    "metric_version",
    "value",
    "unscored_reason",
)
_FAULTS = frozenset(reason.value for reason in UnscoredReason if reason.is_fault)
_TOLERANCE = 1e-9


def _scores(data: pa.Table, context: CheckContext) -> list[Row]:
    """Return the rows, with an empty instruction id where there is none.

    Two scores without an instruction then count as equal.
    """
    return [
        {**row, "instruction_id": row["instruction_id"] or ""}
        for row in _plain_scores(data, context)
    ]


@no_fault("value_xor_reason", "a missing value is null with a reason, never 0")
def _value_and_reason(row: Row, context: CheckContext) -> str | None:
    if (row["value"] is None) != (row["unscored_reason"] is None):
        return None
    return (
        "has neither value nor reason"
        if row["value"] is None
        else f"has both value {row['value']} and reason {row['unscored_reason']}"
    )


@no_fault("value_finite", "a mean needs finite numbers")
def _not_finite(row: Row, context: CheckContext) -> str | None:
    return (
        None
        if row["value"] is None or math.isfinite(row["value"])
        else f"value {row['value']} is not finite, and would make every mean undefined"
    )


@no_fault("value_in_range", "a share lies in [0, 1]", needs="metric_ranges")
def _out_of_range(row: Row, context: CheckContext) -> str | None:
    low, high = (context.metric_ranges or {}).get(row["metric"], (-math.inf, math.inf))
    if row["value"] is None or low - _TOLERANCE <= row["value"] <= high + _TOLERANCE:
        return None
    return f"{row['metric']} is {row['value']}, outside {low} to {high}"


@no_fault("metric_known", "the benchmark lists its metrics", needs="metric_ranges")
def _unknown_metric(row: Row, context: CheckContext) -> str | None:
    return (
        None
        if row["metric"] in (context.metric_ranges or ())
        else f"the benchmark has no metric {row['metric']!r}"
    )


@no_fault("something_scored", "a run without any value measures nothing")
def _all_unscored(row: Row, context: CheckContext) -> str | None:
    return (
        None
        if any(r["value"] is not None for r in row["rows"])
        else f"none of {len(row['rows'])} scores has a value"
    )


@no_fault("one_version_per_metric", "scores of one run must use a single version of each metric")
def _several_versions(row: Row, context: CheckContext) -> str | None:
    versions: dict[str, set[int]] = {}
    for r in row["rows"]:
        versions.setdefault(r["metric"], set()).add(r["metric_version"])
    mixed = sorted(metric for metric, numbers in versions.items() if len(numbers) > 1)
    return f"versions {sorted(versions[mixed[0]])} of {mixed[0]} are mixed" if mixed else None


def _due(context: CheckContext) -> list[tuple[str, int, str]]:
    due = (context.due_scores or {}).items()
    return sorted((episode, turn, metric) for episode, pairs in due for turn, metric in pairs)


def _implied(data: pa.Table, context: CheckContext) -> list[dict[str, Any]]:
    columns = [data[name].to_pylist() for name in ("episode_id", "turn", "metric", "value")]
    values = {
        (episode, turn, metric): value
        for episode, turn, metric, value in zip(*columns, strict=True)
    }
    return [
        {
            "episode_id": episode,
            "turn": turn,
            "metric": metric,
            "values": values,
            "implication": implication,
        }
        for (episode, turn, metric), value in values.items()
        for implication in context.implications
        if metric == implication.metric
        and value is not None
        and abs(value - implication.value) <= _TOLERANCE
    ]


@no_fault("metrics_agree", "the value of one metric determines the other's", needs="implications")
def _contradicted(row: Row, context: CheckContext) -> str | None:
    rule: Implication = row["implication"]
    key = (row["episode_id"], row["turn"], rule.implied)
    if key not in row["values"]:
        return None
    value = row["values"][key]
    if value is not None and abs(value - rule.implied_value) <= _TOLERANCE:
        return None
    return (
        f"{rule.metric} is {rule.value}, so {rule.implied} should be {rule.implied_value}; it is "
        f"{value}"
    )


SCORES = Suite(
    "scores",
    (
        FrameRules(
            "one row per episode, turn, instruction and metric",
            _SCORE,
            _scores,
            (
                not_empty("scores_present", "a run without scores has no result"),
                present("episode_id_present", "a score refers to an episode", "episode_id"),
                present("metric_present", "a score refers to a metric", "metric"),
                unique(
                    "score_unique", "a score counts once in every mean", *_SCORE, "instruction_id"
                ),
                at_least(
                    "turn_from_zero",
                    "turns are numbered from 1; 0 stands for the whole episode",
                    "turn",
                    0,
                ),
                at_least(
                    "metric_version_from_one",
                    "values of unknown metric versions cannot be compared",
                    "metric_version",
                    1,
                ),
                one_of(
                    "reason_known",
                    "the reason says why a value is missing",
                    "unscored_reason",
                    list(UnscoredReason),
                ),
                _value_and_reason,
                _not_finite,
                _out_of_range,
                _unknown_metric,
                of_run("score_of_run"),
                turn_exists("a score refers to an answer"),
                of_its_episode("means are clustered by problem"),
            ),
        ),
        each_present(
            "one row per round and metric due",
            _SCORE,
            _due,
            "due_score_present",
            "every expected score exists",
            "expected, but missing: n + n_unscored does not add up",
            needs="due_scores",
        ),
        FrameRules(
            "one row per implication between two metrics",
            _SCORE,
            _implied,
            (_contradicted,),
        ),
        whole_table(
            _scores,
            _all_unscored,
            few_faults(
                "unscored_share",
                "faulty scores are pending again",
                "scores are missing through a fault",
                lambda row: row["unscored_reason"] in _FAULTS,
            ),
            _several_versions,
            one_value("one_run", "all shards belong to one run", "run_id"),
        ),
    ),
)


_JUDGEMENT = ("episode_id", "turn", "rubric", "dimension")
_judgements = plain_rows(
    *("run_id", "benchmark", "model", *_JUDGEMENT, "problem_id", "sample"),
    *("judge", "judgement_id", "value", "label", "unscored_reason", "n_calls"),
)


@no_fault("value_word_or_reason", "a missing value has a reason and is never a number")
def _not_one_of_value_word_reason(row: Row, context: CheckContext) -> str | None:
    fields = [name for name in ("value", "label", "unscored_reason") if row[name] is not None]
    return None if len(fields) == 1 else f"has {' and '.join(fields) or 'no value or reason'}"


@no_fault(
    "value_in_range", "the rubric states the lowest and highest value", needs="judgement_ranges"
)
def _outside_range(row: Row, context: CheckContext) -> str | None:
    low, high = (context.judgement_ranges or {}).get(
        (row["rubric"], row["dimension"]), (None, None)
    )
    if row["value"] is None or low is None or high is None or low <= row["value"] <= high:
        return None
    return f"value {row['value']} is outside {low}..{high}"


@no_fault("judge_of_rubric", "the run names its judge", needs="judges")
def _other_judge(row: Row, context: CheckContext) -> str | None:
    wanted = (context.judges or {}).get(row["rubric"])
    return (
        None
        if wanted == row["judge"]
        else f"judged by {row['judge']!r}, the run's judge is {wanted!r}"
    )


@no_fault("not_all_missing", "without one readable judgement, the run measures nothing")
def _all_silent(row: Row, context: CheckContext) -> str | None:
    if row["rows"] and all(r["unscored_reason"] in _FAULTS for r in row["rows"]):
        return f"none of {len(row['rows'])} judgements could be read"
    return None


JUDGE_VERDICTS = Suite(
    "judge_verdicts",
    (
        FrameRules(
            "one row per episode, turn, rubric and dimension",
            _JUDGEMENT,
            _judgements,
            (
                present("episode_id_present", "a judgement refers to an episode", "episode_id"),
                present(
                    "judgement_id_present",
                    "a judgement id identifies equal prompts",
                    "judgement_id",
                ),
                unique("judgement_unique", "a judgement counts once", *_JUDGEMENT),
                at_least(
                    "turn_from_zero",
                    "turns are numbered from 1; 0 stands for the whole dialogue",
                    "turn",
                    0,
                ),
                at_least("calls_not_negative", "costs are sums of calls", "n_calls", 0),
                one_of(
                    "reason_known",
                    "the reason says which fault left the value missing",
                    "unscored_reason",
                    [r.value for r in UnscoredReason],
                ),
                of_run("judgement_of_run"),
                _not_one_of_value_word_reason,
                turn_exists("a judgement refers to an answer"),
                of_its_episode("results are joined by problem"),
                _outside_range,
                _other_judge,
                expected(
                    "judgement_expected",
                    "only expected judgements are requested",
                    _JUDGEMENT,
                    "expected_judgements",
                    "this judgement is not expected",
                ),
            ),
        ),
        each_present(
            "one row per judgement due",
            _JUDGEMENT,
            lambda context: sorted(context.expected_judgements or ()),
            "due_judgement_present",
            "every expected judgement exists",
            "expected, but missing: the denominator would not count it",
            needs="expected_judgements",
        ),
        whole_table(
            _judgements,
            _all_silent,
            few_faults(
                "fault_share",
                "too many missing judgements bias a mean",
                "judgements are missing",
                lambda row: row["unscored_reason"] in _FAULTS,
            ),
        ),
    ),
)
