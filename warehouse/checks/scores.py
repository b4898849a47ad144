"""Rules for judgements and scores.

Each expected judgement exists once, with a value of its rubric, or with a reason if it is
unreadable. Each metric has exactly one score per round: a value in the metric's range, or the
reason why there is none. Metrics do not contradict each other.
"""

import math
from collections import Counter
from collections.abc import Sequence

from schemas.episode import UnscoredReason
from warehouse.checks import rule

_SCORE = ("episode_id", "turn", "metric")
_RUN = ("run_id", "benchmark", "model")
_scores = rule.TableRows(
    (
        *(*_RUN, *_SCORE, "problem_id", "sample"),
        *("instruction_id", "metric_version", "value", "unscored_reason"),
    ),
    # Two scores without an instruction count as equal.
    {"instruction_id": lambda row: row["instruction_id"] or ""},
)
_FAULTS = frozenset(reason.value for reason in UnscoredReason if reason.is_fault)
_TOLERANCE = 1e-9


@rule.no_fault("value_xor_reason", "a missing value is null with a reason, never 0")
def _value_and_reason(row: rule.Row, context: rule.CheckContext) -> str | None:
    if (row["value"] is None) != (row["unscored_reason"] is None):
        return None
    return (
        "has neither value nor reason"
        if row["value"] is None
        else f"has both value {row['value']} and reason {row['unscored_reason']}"
    )


@rule.no_fault("value_finite", "a mean needs finite numbers")
def _not_finite(row: rule.Row, context: rule.CheckContext) -> str | None:
    return (
        None
        if row["value"] is None or math.isfinite(row["value"])
        else f"value {row['value']} is not finite, and would make every mean undefined"
    )


@rule.no_fault("value_in_range", "a share lies in [0, 1]", needs="metric_ranges")
def _out_of_range(row: rule.Row, context: rule.CheckContext) -> str | None:
    low, high = (context.metric_ranges or {}).get(row["metric"], (-math.inf, math.inf))
    if row["value"] is None or low - _TOLERANCE <= row["value"] <= high + _TOLERANCE:
        return None
    return f"{row['metric']} is {row['value']}, outside {low} to {high}"


@rule.no_fault("metric_known", "the benchmark lists its metrics", needs="metric_ranges")
def _unknown_metric(row: rule.Row, context: rule.CheckContext) -> str | None:
    return (
        None
        if row["metric"] in (context.metric_ranges or ())
        else f"the benchmark has no metric {row['metric']!r}"
    )


@rule.no_fault("something_scored", "a run without any value measures nothing")
def _all_unscored(row: rule.Row, context: rule.CheckContext) -> str | None:
    reasons = sorted({str(r["unscored_reason"]) for r in row["rows"] if r["value"] is None})
    return (
        None
        if any(r["value"] is not None for r in row["rows"])
        else f"none of {len(row['rows'])} scores has a value ({', '.join(reasons)})"
    )


@rule.no_fault(
    "one_version_per_metric", "scores of one run must use a single version of each metric"
)
def _several_versions(row: rule.Row, context: rule.CheckContext) -> str | None:
    mixed = rule.several_values((r["metric"], r["metric_version"]) for r in row["rows"])
    return f"versions {mixed[min(mixed)]} of {min(mixed)} are mixed" if mixed else None


def _due(context: rule.CheckContext) -> list[tuple[str, int, str]]:
    due = (context.due_scores or {}).items()
    return sorted((episode, turn, metric) for episode, pairs in due for turn, metric in pairs)


def _implied(rows: Sequence[rule.Row], context: rule.CheckContext) -> list[rule.Row]:
    values = {(row["episode_id"], row["turn"], row["metric"]): row["value"] for row in rows}
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


@rule.no_fault(
    "metrics_agree", "the value of one metric determines the other's", needs="implications"
)
def _contradicted(row: rule.Row, context: rule.CheckContext) -> str | None:
    implication: rule.Implication = row["implication"]
    key = (row["episode_id"], row["turn"], implication.implied)
    if key not in row["values"]:
        return None
    value = row["values"][key]
    if value is not None and abs(value - implication.implied_value) <= _TOLERANCE:
        return None
    return (
        f"{implication.metric} is {implication.value}, so {implication.implied} should be "
        f"{implication.implied_value}; it is {value}"
    )


SCORES = rule.Suite(
    "scores",
    (
        rule.FrameRules(
            "one row per episode, turn, instruction and metric",
            _SCORE,
            _scores,
            (
                rule.not_empty("scores_present", "a run without scores has no result"),
                rule.present("episode_id_present", "a score refers to an episode", "episode_id"),
                rule.present("metric_present", "a score refers to a metric", "metric"),
                rule.unique(
                    "score_unique", "a score counts once in every mean", *_SCORE, "instruction_id"
                ),
                rule.at_least(
                    "turn_from_zero",
                    "turns are numbered from 1; 0 stands for the whole episode",
                    "turn",
                    0,
                ),
                rule.at_least(
                    "metric_version_from_one",
                    "values of unknown metric versions cannot be compared",
                    "metric_version",
                    1,
                ),
                rule.one_of(
                    "reason_known",
                    "the reason says why a value is missing",
                    "unscored_reason",
                    list(UnscoredReason),
                ),
                _value_and_reason,
                _not_finite,
                _out_of_range,
                _unknown_metric,
                rule.of_run("score_of_run"),
                rule.turn_exists("a score refers to an answer"),
                rule.of_its_episode("means are clustered by problem"),
            ),
        ),
        rule.each_present(
            "one row per round and metric due",
            _SCORE,
            "due_score_present",
            "every expected score exists",
            "expected, but missing: n + n_unscored does not add up",
            needs="due_scores",
            keys=_due,
        ),
        rule.FrameRules(
            "one row per implication between two metrics",
            _SCORE,
            _scores,
            (_contradicted,),
            _implied,
        ),
        rule.whole_table(
            _scores,
            _all_unscored,
            rule.few_faults(
                "unscored_share",
                "faulty scores are pending again",
                "scores are missing through a fault",
                lambda row: row["unscored_reason"] in _FAULTS,
            ),
            _several_versions,
            rule.one_value("one_run", "all shards belong to one run", "run_id"),
        ),
    ),
)


_JUDGEMENT = ("episode_id", "turn", "rubric", "dimension")
_judgements = rule.TableRows(
    (
        *(*_RUN, *_JUDGEMENT, "problem_id", "sample"),
        *("judge", "judgement_id", "value", "label", "unscored_reason", "n_calls"),
    )
)


@rule.no_fault("value_word_or_reason", "a missing value has a reason and is never a number")
def _not_one_of_value_word_reason(row: rule.Row, context: rule.CheckContext) -> str | None:
    fields = [name for name in ("value", "label", "unscored_reason") if row[name] is not None]
    return None if len(fields) == 1 else f"has {' and '.join(fields) or 'no value or reason'}"


@rule.no_fault(
    "value_in_range", "the rubric states the lowest and highest value", needs="judgement_ranges"
)
def _outside_range(row: rule.Row, context: rule.CheckContext) -> str | None:
    low, high = (context.judgement_ranges or {}).get(
        (row["rubric"], row["dimension"]), (None, None)
    )
    if row["value"] is None or low is None or high is None or low <= row["value"] <= high:
        return None
    return f"value {row['value']} is outside {low}..{high}"


@rule.no_fault("judge_of_rubric", "the run names its judge", needs="judges")
def _other_judge(row: rule.Row, context: rule.CheckContext) -> str | None:
    wanted = (context.judges or {}).get(row["rubric"])
    return (
        None
        if wanted == row["judge"]
        else f"judged by {row['judge']!r}, the run's judge is {wanted!r}"
    )


@rule.no_fault("not_all_missing", "without one readable judgement, the run measures nothing")
def _all_silent(row: rule.Row, context: rule.CheckContext) -> str | None:
    reasons = Counter(r["unscored_reason"] for r in row["rows"])
    if reasons and reasons.keys() <= _FAULTS:
        counts = ", ".join(f"{reason}: {n}" for reason, n in sorted(reasons.items()))
        return f"none of {len(row['rows'])} judgements could be read ({counts})"
    return None


JUDGE_VERDICTS = rule.Suite(
    "judge_verdicts",
    (
        rule.FrameRules(
            "one row per episode, turn, rubric and dimension",
            _JUDGEMENT,
            _judgements,
            (
                rule.present(
                    "episode_id_present", "a judgement refers to an episode", "episode_id"
                ),
                rule.present(
                    "judgement_id_present",
                    "a judgement id identifies equal prompts",
                    "judgement_id",
                ),
                rule.unique("judgement_unique", "a judgement counts once", *_JUDGEMENT),
                rule.at_least(
                    "turn_from_zero",
                    "turns are numbered from 1; 0 stands for the whole dialogue",
                    "turn",
                    0,
                ),
                rule.at_least("calls_not_negative", "costs are sums of calls", "n_calls", 0),
                rule.one_of(
                    "reason_known",
                    "the reason says which fault left the value missing",
                    "unscored_reason",
                    [r.value for r in UnscoredReason],
                ),
                rule.of_run("judgement_of_run"),
                _not_one_of_value_word_reason,
                rule.turn_exists("a judgement refers to an answer"),
                rule.of_its_episode("results are joined by problem"),
                _outside_range,
                _other_judge,
                rule.expected(
                    "judgement_expected",
                    "only expected judgements are requested",
                    _JUDGEMENT,
                    "expected_judgements",
                    "this judgement is not expected",
                ),
            ),
        ),
        rule.each_present(
            "one row per judgement due",
            _JUDGEMENT,
            "due_judgement_present",
            "every expected judgement exists",
            "expected, but missing: the denominator would not count it",
            needs="expected_judgements",
        ),
        rule.whole_table(
            _judgements,
            _all_silent,
            rule.few_faults(
                "fault_share",
                "too many missing judgements bias a mean",
                "judgements are missing",
                lambda row: row["unscored_reason"] in _FAULTS,
            ),
        ),
    ),
)
