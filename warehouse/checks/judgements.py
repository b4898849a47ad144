"""Rules for judgements: each expected judgement exists once, with a value of its rubric.

An unreadable judgement has a reason instead of a value.
"""

from schemas.score import UnscoredReason
from warehouse.checks.rule import (
    CheckContext,
    FrameRules,
    Row,
    Suite,
    at_least,
    each_present,
    expected,
    few_faults,
    no_fault,
    of_its_episode,
    of_run,
    one_of,
    plain_rows,
    present,
    turn_exists,
    unique,
    whole_table,
)

_KEY = ("episode_id", "turn", "rubric", "dimension")
_rows = plain_rows(
    *("run_id", "benchmark", "model", *_KEY, "problem_id", "sample"),
    *("judge", "judgement_id", "value", "label", "unscored_reason", "n_calls"),
)
_FAULTS = frozenset(reason.value for reason in UnscoredReason if reason.is_fault)


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


SUITE = Suite(
    "judge_verdicts",
    (
        FrameRules(
            "one row per episode, turn, rubric and dimension",
            _KEY,
            _rows,
            (
                present("episode_id_present", "a judgement refers to an episode", "episode_id"),
                present(
                    "judgement_id_present",
                    "a judgement id identifies equal prompts",
                    "judgement_id",
                ),
                unique("judgement_unique", "a judgement counts once", *_KEY),
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
                    _KEY,
                    "expected_judgements",
                    "this judgement is not expected",
                ),
            ),
        ),
        each_present(
            "one row per judgement due",
            _KEY,
            lambda context: sorted(context.expected_judgements or ()),
            "due_judgement_present",
            "every expected judgement exists",
            "expected, but missing: the denominator would not count it",
            needs="expected_judgements",
        ),
        whole_table(
            _rows,
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
