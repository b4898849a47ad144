"""Rules for test verdicts, and for the audit of passed programs (table `forgery_audit`).

Each answer has exactly one verdict per expected instruction. A fault of the machine never counts as
a failed test.

An audit runs decoys: tests whose expectations are altered, so that an honest program fails them.
Each sampled pass has exactly one row. The outcome is `forged` only if the decoy is sound.
"""

import math

from schemas.audit import AuditOutcome
from schemas.verdict import FailureReason, Outcome
from warehouse.checks import rule

_KEY = ("episode_id", "turn", "instruction_id")
_RUN = ("run_id", "benchmark", "model", *_KEY, "problem_id", "sample")
_verdicts = rule.TableRows((*_RUN, "outcome", "reason", "duration_s", "verdict_id", "sandbox"))
_SCORED = (FailureReason.TAMPERING, FailureReason.FORGED, FailureReason.REFUSED)
_MISSING = tuple(reason.value for reason in FailureReason if reason not in _SCORED)
_LASTING = frozenset({Outcome.PASSED.value, Outcome.FAILED.value})
_RAN = _LASTING | {Outcome.TIMEOUT.value}


@rule.no_fault("duration_not_negative", "a duration cannot be negative")
def _not_a_duration(row: rule.Row, context: rule.CheckContext) -> str | None:
    took = row["duration_s"]
    return None if took is None or 0 <= took < math.inf else f"duration_s is {took}"


@rule.no_fault(
    "duration_within_limit", "the sandbox must enforce its time limit", needs="wall_limit_s"
)
def _too_long(row: rule.Row, context: rule.CheckContext) -> str | None:
    limit = (context.wall_limit_s or 0.0) + context.wall_slack_s
    took = row["duration_s"]
    return None if took is None or took <= limit else f"{took:.1f} s, limit {limit:.1f} s"


@rule.no_fault("verdict_id_iff_run", "a verdict id belongs to a program that ran")
def _id_and_outcome_disagree(row: rule.Row, context: rule.CheckContext) -> str | None:
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


@rule.no_fault("not_all_infra", "a run whose programs all failed to start measures nothing")
def _all_infra(row: rule.Row, context: rule.CheckContext) -> str | None:
    """Return a fault if programs ran (have a verdict id) and none has an outcome, else None."""
    tried = [r["outcome"] for r in row["rows"] if r["verdict_id"] is not None]
    return (
        f"all {len(tried)} programs that ran ended as infra"
        if set(tried) == {Outcome.INFRA.value}
        else None
    )


@rule.no_fault("equal_programs_agree", "equal programs must have equal outcomes", blocking=False)
def _equal_programs_differ(row: rule.Row, context: rule.CheckContext) -> str | None:
    ran = (r for r in row["rows"] if r["verdict_id"] is not None and r["outcome"] in _LASTING)
    flaky = rule.several_values((r["verdict_id"], r["outcome"]) for r in ran)
    return (
        f"{len(flaky)} programs passed and failed, for example verdict {min(flaky)}"
        if flaky
        else None
    )


TEST_VERDICTS = rule.Suite(
    "test_verdicts",
    (
        rule.FrameRules(
            "one row per episode, turn and instruction",
            _KEY,
            _verdicts,
            (
                rule.not_empty("verdicts_present", "a run without verdicts has no result"),
                rule.present(
                    "episode_id_present",
                    "a verdict refers to an answer of an episode",
                    "episode_id",
                ),
                rule.present(
                    "instruction_id_present",
                    "a verdict refers to the tests of an instruction",
                    "instruction_id",
                ),
                rule.one_of(
                    "outcome_known", "no other outcome is defined", "outcome", list(Outcome)
                ),
                rule.unique("verdict_unique", "a verdict counts once", *_KEY),
                rule.at_least("turn_from_one", "turns are numbered from 1", "turn", 1),
                _not_a_duration,
                _too_long,
                rule.of_run("verdict_of_run"),
                rule.turn_exists("a verdict refers to an answer"),
                rule.of_its_episode("results are joined by problem"),
                rule.expected(
                    "verdict_expected",
                    "only expected tests are run",
                    _KEY,
                    "expected_verdicts",
                    "this instruction is not expected on this turn",
                ),
                _id_and_outcome_disagree,
            ),
        ),
        rule.each_present(
            "one row per verdict due",
            _KEY,
            "due_verdict_present",
            "every expected verdict exists",
            "expected, but missing: the denominator would not count it",
            needs="expected_verdicts",
        ),
        rule.whole_table(
            _verdicts,
            _all_infra,
            rule.few_faults(
                "infra_share",
                "infra verdicts are pending again",
                "verdicts are infra",
                lambda row: row["outcome"] == Outcome.INFRA.value,
            ),
            _equal_programs_differ,
            rule.one_value("one_run", "all shards belong to one run", "run_id"),
            rule.one_value(
                "one_sandbox",
                "all programs of a run use the same isolation",
                "sandbox",
                blocking=False,
            ),
        ),
    ),
)


_audits = rule.TableRows(
    (*_RUN, "verdict_id", "outcome", "is_sound", "n_decoys", "n_runs", "duration_s")
)


@rule.no_fault("audit_expected", "only sampled passes are audited", needs="expected_audits")
def _not_expected(row: rule.Row, context: rule.CheckContext) -> str | None:
    key = row["episode_id"], row["turn"], row["instruction_id"]
    expected_id = (context.expected_audits or {}).get(key)
    if expected_id is None:
        return "this pass is not in the audit sample"
    return (
        None
        if expected_id == row["verdict_id"]
        else f"audits verdict {row['verdict_id']}, but the pass has verdict {expected_id}"
    )


@rule.no_fault("outcome_has_ground", "a conviction needs a sound decoy that passed")
def _outcome_without_ground(row: rule.Row, context: rule.CheckContext) -> str | None:
    """Return the fault of an outcome `forged` or `suspected` without a fitting decoy, or None."""
    if row["outcome"] not in (AuditOutcome.FORGED.value, AuditOutcome.SUSPECTED.value):
        return None
    if (row["outcome"] == AuditOutcome.FORGED.value) != row["is_sound"]:
        return f"{row['outcome']}, but its decoy is {'' if row['is_sound'] else 'not '}sound"
    return None if row["n_decoys"] else f"{row['outcome']}, but no decoy was run"


FORGERY_AUDIT = rule.Suite(
    "forgery_audit",
    (
        rule.FrameRules(
            "one row per audited pass",
            _KEY,
            _audits,
            (
                rule.present(
                    "verdict_id_present", "only programs that ran are audited", "verdict_id"
                ),
                rule.one_of(
                    "outcome_known", "no other outcome is defined", "outcome", list(AuditOutcome)
                ),
                rule.unique("audit_unique", "each pass is audited once", *_KEY),
                rule.at_least("turn_from_one", "turns are numbered from 1", "turn", 1),
                rule.at_least("decoys_not_negative", "a count cannot be negative", "n_decoys", 0),
                rule.at_least("runs_not_negative", "a count cannot be negative", "n_runs", 0),
                rule.at_least(
                    "duration_not_negative", "a duration cannot be negative", "duration_s", 0
                ),
                rule.of_run("audit_of_run"),
                rule.of_its_episode("results are joined by problem"),
                _not_expected,
                _outcome_without_ground,
            ),
        ),
        rule.each_present(
            "one row per drawn pass",
            _KEY,
            "drawn_pass_audited",
            "every pass in the seeded sample is audited",
            "in the audit sample, but not audited",
            needs="expected_audits",
        ),
    ),
)
