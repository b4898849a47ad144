"""Rules for audited passes: each drawn pass has a row, and a conviction names a sound decoy."""

from typing import Any

import pyarrow as pa

from schemas.audit import AuditOutcome
from warehouse.checks.context import CheckContext
from warehouse.checks.rule import (
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
)
from warehouse.checks.verdicts import of_another_episode

_KEY = ("episode_id", "turn", "instruction_id")
_COLUMNS = (
    *(
        "run_id",
        "benchmark",
        "model",
        *_KEY,
        "problem_id",
        "sample",
        "verdict_id",
        "outcome",
        "is_sound",
    ),
    *("n_decoys", "n_runs", "duration_s"),
)


def _key(row: Row) -> tuple[str, int, str]:
    return row["episode_id"], row["turn"], row["instruction_id"]


def _not_expected(row: Row, context: CheckContext) -> str | None:
    wanted = (context.expected_audits or {}).get(_key(row))
    if wanted is None:
        return "this pass was not drawn"
    return (
        None
        if wanted == row["verdict_id"]
        else f"audits the verdict {row['verdict_id']}, the pass has {wanted}"
    )


def _outcome_without_ground(row: Row, context: CheckContext) -> str | None:
    """Fault: a conviction or a suspicion that no run of a decoy bears out."""
    if row["outcome"] not in (AuditOutcome.FORGED.value, AuditOutcome.SUSPECTED.value):
        return None
    if (row["outcome"] == AuditOutcome.FORGED.value) != row["is_sound"]:
        return f"{row['outcome']}, but its decoy is {'' if row['is_sound'] else 'not '}sound"
    return None if row["n_decoys"] else f"{row['outcome']}, but no decoy was run"


def _due(data: pa.Table, context: CheckContext) -> list[dict[str, Any]]:
    there = set(zip(*(data[name].to_pylist() for name in _KEY), strict=True))
    keys = sorted(context.expected_audits or ())
    return [dict(zip(_KEY, key, strict=True)) | {"audited": key in there} for key in keys]


def _not_audited(row: Row, context: CheckContext) -> str | None:
    return None if row["audited"] else "drawn, but not audited"


SUITE = Suite(
    "forgery_audit",
    (
        FrameRules(
            "one row per audited pass",
            _KEY,
            plain_rows(*_COLUMNS),
            (
                *_KEY,
                "problem_id",
                "sample",
                "verdict_id",
                "outcome",
                "is_sound",
                "n_decoys",
                "n_runs",
                "duration_s",
            ),
            (
                present("verdict_id_present", "an audit is of a program that ran", "verdict_id"),
                one_of(
                    "outcome_known",
                    "one of the outcomes, nothing else",
                    "outcome",
                    list(AuditOutcome),
                ),
                unique("audit_unique", "a pass is audited once", *_KEY),
                at_least("turn_from_one", "turns are numbered from 1", "turn", 1),
                at_least("decoys_not_negative", "decoys are counted", "n_decoys", 0),
                at_least("runs_not_negative", "sandbox runs are counted", "n_runs", 0),
                at_least("duration_not_negative", "durations are seconds", "duration_s", 0),
                no_fault("audit_of_run", "tables are kept by benchmark and model", of_run),
                no_fault(
                    "row_of_its_episode",
                    "results are joined by problem",
                    of_another_episode,
                    needs="episode_facts",
                ),
                no_fault(
                    "audit_expected",
                    "only drawn passes are audited",
                    _not_expected,
                    needs="expected_audits",
                ),
                no_fault(
                    "outcome_has_ground",
                    "a conviction needs a sound decoy that passed",
                    _outcome_without_ground,
                ),
            ),
        ),
        FrameRules(
            "one row per drawn pass",
            _KEY,
            _due,
            (*_KEY, "audited"),
            (
                no_fault(
                    "drawn_pass_audited",
                    "the seed draws the sample",
                    _not_audited,
                    needs="expected_audits",
                ),
            ),
        ),
    ),
)
