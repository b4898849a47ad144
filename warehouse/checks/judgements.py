"""Rules for judgements: each expected judgement exists once, with a value of its rubric.

An unreadable judgement has a reason instead of a value.
"""

from typing import Any

import pyarrow as pa

from schemas.score import UnscoredReason
from warehouse.checks.rule import (
    CheckContext,
    FrameRules,
    Row,
    Suite,
    at_least,
    no_fault,
    of_run,
    one_of,
    plain_rows,
    present,
    unique,
    whole_table,
)
from warehouse.checks.verdicts import of_another_episode, unknown_turn

_KEY = ("episode_id", "turn", "rubric", "dimension")
_COLUMNS = (
    *_KEY,
    "problem_id",
    "sample",
    "judge",
    "judgement_id",
    "value",
    "label",
    "unscored_reason",
    "n_calls",
)
_rows = plain_rows("run_id", "benchmark", "model", *_COLUMNS)
_FAULTS = frozenset(reason.value for reason in UnscoredReason if reason.is_fault)


def _not_one_of_value_word_reason(row: Row, context: CheckContext) -> str | None:
    fields = [name for name in ("value", "label", "unscored_reason") if row[name] is not None]
    return None if len(fields) == 1 else f"has {' and '.join(fields) or 'no value or reason'}"


def _outside_range(row: Row, context: CheckContext) -> str | None:
    low, high = (context.judgement_ranges or {}).get(
        (row["rubric"], row["dimension"]), (None, None)
    )
    if row["value"] is None or low is None or high is None or low <= row["value"] <= high:
        return None
    return f"value {row['value']} is outside {low}..{high}"


def _other_judge(row: Row, context: CheckContext) -> str | None:
    wanted = (context.judges or {}).get(row["rubric"])
    return (
        None
        if wanted == row["judge"]
        else f"judged by {row['judge']!r}, the run's judge is {wanted!r}"
    )


def _not_expected(row: Row, context: CheckContext) -> str | None:
    return (
        None
        if tuple(row[name] for name in _KEY) in (context.expected_judgements or ())
        else "this judgement is not expected"
    )


def _due(data: pa.Table, context: CheckContext) -> list[dict[str, Any]]:
    there = set(zip(*(data[name].to_pylist() for name in _KEY), strict=True))
    return [
        {**dict(zip(_KEY, key, strict=True)), "judged": key in there}
        for key in sorted(context.expected_judgements or ())
    ]


def _not_judged(row: Row, context: CheckContext) -> str | None:
    return None if row["judged"] else "expected, but missing: the denominator would not count it"


def _all_silent(row: Row, context: CheckContext) -> str | None:
    if row["rows"] and all(r["unscored_reason"] in _FAULTS for r in row["rows"]):
        return f"none of {len(row['rows'])} judgements could be read"
    return None


def _fault_share(row: Row, context: CheckContext) -> str | None:
    faulty, n = sum(r["unscored_reason"] in _FAULTS for r in row["rows"]), len(row["rows"])
    if not n or faulty / n <= context.fault_limit:
        return None
    return (
        f"{faulty} of {n} judgements are missing ({faulty / n:.1%}), limit "
        f"{context.fault_limit:.1%}"
    )


SUITE = Suite(
    "judge_verdicts",
    (
        FrameRules(
            "one row per episode, turn, rubric and dimension",
            _KEY,
            _rows,
            (*_KEY, "judgement_id", "value", "unscored_reason", "n_calls"),
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
                no_fault(
                    "judgement_of_run", ("tables are partitioned by benchmark and model"), of_run
                ),
                no_fault(
                    "value_word_or_reason",
                    "a missing value has a reason and is never a number",
                    _not_one_of_value_word_reason,
                ),
                no_fault(
                    "episode_and_turn_exist",
                    "a judgement refers to an answer",
                    unknown_turn,
                    needs="episode_rounds",
                ),
                no_fault(
                    "row_of_its_episode",
                    "results are joined by problem",
                    of_another_episode,
                    needs="episode_facts",
                ),
                no_fault(
                    "value_in_range",
                    "the rubric states the lowest and highest value",
                    _outside_range,
                    needs="judgement_ranges",
                ),
                no_fault(
                    "judge_of_rubric", ("the run names its judge"), _other_judge, needs="judges"
                ),
                no_fault(
                    "judgement_expected",
                    "only expected judgements are requested",
                    _not_expected,
                    needs="expected_judgements",
                ),
            ),
        ),
        FrameRules(
            "one row per judgement due",
            _KEY,
            _due,
            (*_KEY, "judged"),
            (
                no_fault(
                    "due_judgement_present",
                    "every expected judgement exists",
                    _not_judged,
                    needs="expected_judgements",
                ),
            ),
        ),
        whole_table(
            _rows,
            no_fault(
                "not_all_missing",
                "without one readable judgement, the run measures nothing",
                _all_silent,
            ),
            no_fault(
                "fault_share",
                "too many missing judgements bias a mean",
                _fault_share,
                blocking=False,
            ),
        ),
    ),
)
