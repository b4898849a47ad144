"""Rules for test verdicts.

Each answer has exactly one verdict per expected instruction. A fault of the machine never counts as
a failed test.
"""

import math
from typing import Any

import pyarrow as pa

from schemas.verdict import FailureReason, Outcome
from warehouse.checks.rule import (
    CheckContext,
    FrameRules,
    Row,
    Suite,
    at_least,
    no_fault,
    not_empty,
    of_run,
    one_of,
    one_value,
    plain_rows,
    present,
    unique,
    whole_table,
)

_rows = plain_rows(
    "run_id",
    "benchmark",
    "model",
    "episode_id",
    "problem_id",
    "sample",
    "turn",
    "instruction_id",
    "outcome",
    "reason",
    "duration_s",
    "verdict_id",
    "sandbox",
)
_SCORED = (FailureReason.TAMPERING, FailureReason.FORGED, FailureReason.REFUSED)
_MISSING = tuple(reason.value for reason in FailureReason if reason not in _SCORED)
_RAN = frozenset({Outcome.PASSED.value, Outcome.FAILED.value, Outcome.TIMEOUT.value})


def _key(row: Row) -> tuple[str, int, str]:
    return row["episode_id"], row["turn"], row["instruction_id"]


def unknown_turn(row: Row, context: CheckContext) -> str | None:
    """Return the fault of a row of an unknown episode or round, or None.

    Round 0 stands for the whole episode.
    """
    rounds = (context.episode_rounds or {}).get(row["episode_id"])
    if rounds is None:
        return "the run has no such episode"
    return (
        None
        if 0 <= row["turn"] <= rounds
        else f"turn {row['turn']} of an episode of {rounds} turns"
    )


def of_another_episode(row: Row, context: CheckContext) -> str | None:
    """Return the fault of a row whose problem or sample differs from its episode's, or None."""
    facts = (context.episode_facts or {}).get(row["episode_id"], {})
    wrong = next((c for c in ("problem_id", "sample") if c in facts and row[c] != facts[c]), None)
    return (
        None if wrong is None else f"{wrong} is {row[wrong]!r}, but {facts[wrong]!r} in its episode"
    )


def _not_a_duration(row: Row, context: CheckContext) -> str | None:
    took = row["duration_s"]
    return None if took is None or 0 <= took < math.inf else f"duration_s is {took}"


def _not_expected(row: Row, context: CheckContext) -> str | None:
    return (
        None
        if _key(row) in (context.expected_verdicts or ())
        else "this instruction is not expected on this turn"
    )


def _too_long(row: Row, context: CheckContext) -> str | None:
    limit = (context.wall_limit_s or 0.0) + context.wall_slack_s
    took = row["duration_s"]
    return None if took is None or took <= limit else f"{took:.1f} s, limit {limit:.1f} s"


def _id_and_outcome_disagree(row: Row, context: CheckContext) -> str | None:
    if row["outcome"] == Outcome.ERROR.value and row["verdict_id"] is not None:
        return "there is no answer to run, but a verdict id"
    if row["outcome"] == Outcome.UNSCORED.value and row["reason"] not in _MISSING:
        return f"unscored for the unknown reason {row['reason']!r}"
    if (
        row["outcome"] in _RAN
        and not row["verdict_id"]
        and row["reason"] != FailureReason.REFUSED.value
    ):
        return f"{row['outcome']}, but there is no verdict id, so no program ran"
    return None


def _all_infra(row: Row, context: CheckContext) -> str | None:
    """Return a fault if programs ran (have a verdict id) and none has an outcome, else None."""
    tried = [r["outcome"] for r in row["rows"] if r["verdict_id"] is not None]
    return (
        f"all {len(tried)} programs that ran ended as infra"
        if set(tried) == {Outcome.INFRA.value}
        else None
    )


def _n_infra(row: Row) -> int:
    return sum(r["outcome"] == Outcome.INFRA.value for r in row["rows"])


def _infra_share(row: Row, context: CheckContext) -> str | None:
    n_infra, n = _n_infra(row), len(row["rows"])
    if not n or n_infra / n <= context.fault_limit:
        return None
    return (
        f"{n_infra} of {n} verdicts are infra ({n_infra / n:.1%}), limit {context.fault_limit:.1%}"
    )


def _equal_programs_differ(row: Row, context: CheckContext) -> str | None:
    outcomes_by_id: dict[str, set[str]] = {}
    for r in row["rows"]:
        if r["verdict_id"] is not None and r["outcome"] in (
            Outcome.PASSED.value,
            Outcome.FAILED.value,
        ):
            outcomes_by_id.setdefault(r["verdict_id"], set()).add(r["outcome"])
    flaky = sorted(verdict for verdict, results in outcomes_by_id.items() if len(results) > 1)
    return (
        f"{len(flaky)} programs passed and failed, for example verdict {flaky[0]}"
        if flaky
        else None
    )


def _due(data: pa.Table, context: CheckContext) -> list[dict[str, Any]]:
    columns = [data[name].to_pylist() for name in ("episode_id", "turn", "instruction_id")]
    present_keys = set(zip(*columns, strict=True))
    return [
        {
            "episode_id": key[0],
            "turn": key[1],
            "instruction_id": key[2],
            "judged": key in present_keys,
        }
        for key in sorted(context.expected_verdicts or ())
    ]


def _not_judged(row: Row, context: CheckContext) -> str | None:
    return None if row["judged"] else "expected, but missing: the denominator would not count it"


_KEY = ("episode_id", "turn", "instruction_id")

SUITE = Suite(
    "test_verdicts",
    (
        FrameRules(
            "one row per episode, turn and instruction",
            _KEY,
            _rows,
            (*_KEY, "problem_id", "sample", "outcome", "duration_s", "verdict_id"),
            (
                not_empty("verdicts_present", "a run without verdicts has no result"),
                present(
                    "episode_id_present",
                    "a verdict refers to an answer of an episode",
                    "episode_id",
                ),
                present(
                    "instruction_id_present",
                    "a verdict refers to the tests of an instruction",
                    "instruction_id",
                ),
                one_of("outcome_known", "no other outcome is defined", "outcome", list(Outcome)),
                unique("verdict_unique", "a verdict counts once", *_KEY),
                at_least("turn_from_one", "turns are numbered from 1", "turn", 1),
                no_fault("duration_not_negative", "a duration cannot be negative", _not_a_duration),
                no_fault(
                    "duration_within_limit",
                    "the sandbox must enforce its time limit",
                    _too_long,
                    needs="wall_limit_s",
                ),
                no_fault("verdict_of_run", "tables are partitioned by benchmark and model", of_run),
                no_fault(
                    "episode_and_turn_exist",
                    "a verdict refers to an answer",
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
                    "verdict_expected",
                    "only expected tests are run",
                    _not_expected,
                    needs="expected_verdicts",
                ),
                no_fault(
                    "verdict_id_iff_run",
                    "a verdict id belongs to a program that ran",
                    _id_and_outcome_disagree,
                ),
            ),
        ),
        FrameRules(
            "one row per verdict due",
            _KEY,
            _due,
            (*_KEY, "judged"),
            (
                no_fault(
                    "due_verdict_present",
                    "every expected verdict exists",
                    _not_judged,
                    needs="expected_verdicts",
                ),
            ),
        ),
        whole_table(
            _rows,
            no_fault(
                "not_all_infra",
                "a run whose programs all failed to start measures nothing",
                _all_infra,
            ),
            no_fault(
                "infra_share",
                "infra verdicts are pending again",
                _infra_share,
                blocking=False,
            ),
            no_fault(
                "equal_programs_agree",
                "equal programs must have equal outcomes",
                _equal_programs_differ,
                blocking=False,
            ),
            one_value("one_run", "all shards belong to one run", "run_id"),
            one_value(
                "one_sandbox",
                "all programs of a run use the same isolation",
                "sandbox",
                blocking=False,
            ),
        ),
    ),
)
