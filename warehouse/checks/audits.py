"""Rules for the audit of passed programs (table `forgery_audit`).

An audit runs decoys: tests whose expectations are altered, so that an honest program fails them.
Each sampled pass has exactly one row. The outcome is `forged` only if the decoy is sound.
"""

from schemas.audit import AuditOutcome
from warehouse.checks.rule import (
    CheckContext,
    FrameRules,
    Row,
    Suite,
    at_least,
    each_present,
    no_fault,
    of_its_episode,
    of_run,
    one_of,
    plain_rows,
    present,
    unique,
)

_KEY = ("episode_id", "turn", "instruction_id")
_rows = plain_rows(
    *("run_id", "benchmark", "model", *_KEY, "problem_id", "sample"),
    *("verdict_id", "outcome", "is_sound", "n_decoys", "n_runs", "duration_s"),
)


@no_fault("audit_expected", "only sampled passes are audited", needs="expected_audits")
def _not_expected(row: Row, context: CheckContext) -> str | None:
    key = row["episode_id"], row["turn"], row["instruction_id"]
    expected_id = (context.expected_audits or {}).get(key)
    if expected_id is None:
        return "this pass is not in the audit sample"
    return (
        None
        if expected_id == row["verdict_id"]
        else f"audits verdict {row['verdict_id']}, but the pass has verdict {expected_id}"
    )


@no_fault("outcome_has_ground", "a conviction needs a sound decoy that passed")
def _outcome_without_ground(row: Row, context: CheckContext) -> str | None:
    """Return the fault of an outcome `forged` or `suspected` without a fitting decoy, or None."""
    if row["outcome"] not in (AuditOutcome.FORGED.value, AuditOutcome.SUSPECTED.value):
        return None
    if (row["outcome"] == AuditOutcome.FORGED.value) != row["is_sound"]:
        return f"{row['outcome']}, but its decoy is {'' if row['is_sound'] else 'not '}sound"
    return None if row["n_decoys"] else f"{row['outcome']}, but no decoy was run"


SUITE = Suite(
    "forgery_audit",
    (
        FrameRules(
            "one row per audited pass",
            _KEY,
            _rows,
            (
                present("verdict_id_present", "only programs that ran are audited", "verdict_id"),
                one_of(
                    "outcome_known",
                    "no other outcome is defined",
                    "outcome",
                    list(AuditOutcome),
                ),
                unique("audit_unique", "each pass is audited once", *_KEY),
                at_least("turn_from_one", "turns are numbered from 1", "turn", 1),
                at_least("decoys_not_negative", "a count cannot be negative", "n_decoys", 0),
                at_least("runs_not_negative", "a count cannot be negative", "n_runs", 0),
                at_least("duration_not_negative", "a duration cannot be negative", "duration_s", 0),
                of_run("audit_of_run"),
                of_its_episode("results are joined by problem"),
                _not_expected,
                _outcome_without_ground,
            ),
        ),
        each_present(
            "one row per drawn pass",
            _KEY,
            lambda context: sorted(context.expected_audits or ()),
            "drawn_pass_audited",
            "every pass in the seeded sample is audited",
            "in the audit sample, but not audited",
            needs="expected_audits",
        ),
    ),
)
