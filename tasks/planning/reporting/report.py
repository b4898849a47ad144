"""Report of a run's outcome, reasons to withhold a run, and rows of its early decision."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from schemas.audit import AuditCounts, ForgeryAudit, audit_counts
from schemas.base import Frozen
from schemas.dialog import Role
from schemas.episode import Episode, Score, StopReason, UnscoredReason
from schemas.errors import ParleyError
from schemas.lake.records import QualityCheck, RunRecord, RunStatus
from schemas.night.decision import ComparisonRule, Decision
from schemas.night.work import RunWork
from schemas.outside.display import LAST_FAULT
from schemas.verdict import JudgeVerdict
from tasks.planning.decisions.evidence import Evidence
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.account import (
    account_at_start,
    empty_account,
    with_episodes,
    with_judgements,
)
from tasks.storage.home import Home


class RunReport(Frozen):
    """Outcome of one run in a night: its row of `runs`, and facts that only the night knows.

    A field that `RunRecord` has, too, means the same there. `status` is `failed` if an error
    stopped the run without results.
    """

    run_id: str
    title: str
    setting: str
    model: str
    status: RunStatus | str
    reason: str | None = None
    episodes: int = 0
    """Number of episodes that the run has."""
    pending: int = 0
    model_calls: int = 0
    n_episodes: int = 0
    """Number of episodes that a finished run should have; 0 for other runs."""
    n_faulty: int = 0
    """Number of episodes that ended as infra, do not exist, or lack a score because of a fault."""
    n_infra: int = 0
    n_unscored: int = 0
    n_truncated: int = 0
    n_tampered: int = 0
    """Number of test verdicts on answers that tampered with the tests."""
    n_drift_calls: int = 0
    """Number of requests that measured the drift of judges, once a night.

    `model_calls` excludes them.
    """
    audit: AuditCounts = AuditCounts()
    n_answers: int = 0
    """Number of answers of the subject."""
    n_refused: int = 0
    n_empty: int = 0
    n_cut_off: int = 0
    adapted: tuple[tuple[str, str], ...] = ()
    n_unreadable: int = 0
    n_quarantined: int = 0
    """Number of rows of the raw data that could not be staged."""
    docs_path: str | None = None
    work: RunWork | None = None
    """Reused and paid work, and why work was pending; None for a run that never began."""

    @property
    def is_published(self) -> bool:
        """True if the run finished and is not withheld."""
        return self.status == "finished"


def works(reports: Iterable[RunReport]) -> tuple[RunWork, ...]:
    """Return the reused and paid work of each run that began."""
    return tuple(report.work for report in reports if report.work is not None)


_SHARED = tuple(
    name for name in RunReport.model_fields if name in RunRecord.model_fields and name != "status"
)


def shared_fields(row: RunReport | RunRecord) -> dict[str, Any]:
    """Return the fields that a run's report and its record have in common, except the status."""
    return {name: getattr(row, name) for name in _SHARED}


def with_counts(
    report: RunReport, n_wanted: int, episodes: Sequence[Episode], scores: Sequence[Score]
) -> RunReport:
    """Add the counts of a run's faults and answers, which decide whether it is withheld.

    A wanted episode that does not exist counts as infra.

    Args:
        report: report of the run.
        n_wanted: number of episodes that the run should have.
        episodes: episodes that the run has.
        scores: scores of the run.
    """
    faults = [s for s in scores if s.unscored_reason is not None and s.unscored_reason.is_fault]
    infra = {s.episode_id for s in faults if s.unscored_reason is UnscoredReason.INFRA}
    adapted: dict[str, set[str]] = defaultdict(set)
    counts = Counter[str](n_truncated=0)
    for episode in episodes:
        if episode.stop_reason is StopReason.INFRA:
            infra.add(episode.episode_id)
        for step in episode.steps:
            if step.adapted:
                adapted["simulator" if step.role is Role.USER else "subject"].update(step.adapted)
        answers = [
            step
            for step in episode.messages
            if step.role is Role.ASSISTANT and not step.is_scripted
        ]
        counts.update(
            n_truncated=sum(step.finish_reason in ("length", "cut_off") for step in episode.steps),
            n_answers=len(answers),
            n_refused=episode.stop_reason is StopReason.REFUSED,
            n_empty=sum(not step.content.strip() for step in answers),
            n_cut_off=sum(step.finish_reason == "cut_off" for step in answers),
        )
    missing = n_wanted - len(episodes)
    changes = tuple((role, ", ".join(sorted(names))) for role, names in sorted(adapted.items()))
    return report.model_copy(
        update={
            "episodes": len(episodes),
            "n_episodes": n_wanted,
            "n_faulty": len(infra | {s.episode_id for s in faults}) + missing,
            "n_infra": len(infra) + missing,
            "n_unscored": len(faults),
            "adapted": changes,
            **counts,
        }
    )


def withheld_because(
    counts: RunReport,
    max_fault_share: float,
    failures: Sequence[QualityCheck],
    fault: str | None = None,
    *,
    is_permanent: bool = False,
) -> str | None:
    """Return the reason why a run must be withheld; None if it may be published.

    Args:
        counts: report of the run, with its counts.
        max_fault_share: largest share of faulty episodes that may be published (0 to 1).
        failures: failed quality checks that block publication.
        fault: message of the last fault of a machine or a service; None without a fault.
        is_permanent: True if a retry cannot help against `fault`, which is then the main reason.
    """
    last = f". {LAST_FAULT} {fault}" if fault else ""
    if failures:
        first = failures[0]
        more = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
        column = f" on column {first.column_name}" if first.column_name else ""
        return (
            f"quality check {first.suite}: {first.expectation}{column} failed{more}: "
            f"{first.detail}{last}"
        )
    if counts.n_faulty > max_fault_share * counts.n_episodes:
        share = (
            f"{counts.n_faulty} of {counts.n_episodes} episodes have infra faults or unscored turns"
            f" ({counts.n_infra} infra), more than the {max_fault_share:.1%} that max_fault_share "
            "allows"
        )
        if is_permanent and fault:
            return f"{fault}. So {share}"
        remedy = (
            "Run again to retry the pending episodes, or raise max_fault_share"
            if counts.n_infra
            else "The column `unscored_reason` of the table `scores` has the reasons"
        )
        return f"{share}. {remedy}{last}"
    return None


def forged_because(counts: AuditCounts, max_forged_share: float) -> str | None:
    """Return the reason why forged passes withhold a run; None if their share is allowed."""
    if counts.share <= max_forged_share:
        return None
    return (
        f"{counts.n_forged} of {counts.n_audited} audited passes are forged ({counts.share:.1%}), "
        f"more than the {max_forged_share:.1%} that max_forged_share allows. Their tests also pass "
        "where they must fail: `parley show EPISODE` shows the altered tests, the table "
        "`forgery_audit` lists them"
    )


def finished_report(plan: RunPlan) -> RunReport:
    """Return the report of a finished run, made from its record. No request is sent.

    Raises:
        ParleyError: the run has no record. Call `plan.is_finished()` first.
    """
    record = plan.record()
    if record is None:
        raise ParleyError(f"run {plan.run_id} has no record in {plan.lake.root}")
    work = account_at_start(plan, record).model_copy(update={"status": record.status})
    return RunReport(
        title=plan.request.title,
        status=record.status,
        episodes=record.n_episodes,
        audit=audit_counts(plan.lake.read("forgery_audit", ForgeryAudit, **plan.keys)),
        n_quarantined=len(plan.staged.quarantined),
        **shared_fields(record) | {"model_calls": 0, "work": work},
    )


def as_published(home: Home, reports: Sequence[RunReport]) -> list[RunReport]:
    """Return the reports with each run's status and reason as the warehouse shows them.

    Publication itself may withhold a run. A withheld run that a person released is published.
    """
    from tasks.planning.reporting.publishing import unpublished_reasons

    withheld = [report.run_id for report in reports if report.status == "withheld"]
    released = set(withheld) - unpublished_reasons(home, withheld).keys()
    reports = [
        report.model_copy(update={"status": "finished"}) if report.run_id in released else report
        for report in reports
    ]
    reasons = unpublished_reasons(
        home, [report.run_id for report in reports if report.is_published]
    )
    return [
        report.model_copy(update={"status": "withheld", "reason": reasons[report.run_id]})
        if report.run_id in reasons
        else report
        for report in reports
    ]


_RULE_PART, _DECISIONS_PART = "rule", "decisions"


def keep_comparison_rule(plan: RunPlan) -> bool:
    """Write the run's comparison rule to the lake, and return True if the rule changed.

    A request without a family or comparison keeps the values of an earlier request.
    """
    stored = plan.lake.read("comparison_rules", ComparisonRule, **plan.keys)
    default = ComparisonRule(
        run_id=plan.run_id,
        benchmark=plan.spec.benchmark,
        model=plan.spec.label,
        family=plan.spec.label,
    )
    before = stored[0] if stored else default
    comparison = plan.request.comparison
    update = (
        {}
        if comparison is None
        else {
            **comparison.model_dump(),
            "thresholds": tuple(sorted(comparison.thresholds.items())),
        }
    )
    rule = before.model_copy(
        update={**update, "family": plan.request.model.family or before.family}
    )
    if stored == [rule]:
        return False
    plan.lake.write_part("comparison_rules", [rule], _RULE_PART, **plan.keys)
    return True


def decision_rows(
    plan: RunPlan, evidence: Evidence, judged: Iterable[JudgeVerdict]
) -> tuple[Decision, ...]:
    """Return a row for each metric of the run's decision rule.

    Args:
        plan: plan of the run.
        evidence: evidence with the run's scores.
        judged: judgements of the run, to estimate the cost of those that were not needed.
    """
    saved = _saved(plan, evidence, judged)
    return tuple(evidence.decision(name).model_copy(update=saved) for name in evidence.metrics)


def keep_decisions(plan: RunPlan, rows: Sequence[Decision]) -> None:
    """Replace the run's stored decisions by `rows`. Without rows, remove them."""
    if rows:
        plan.lake.write_part("decisions", rows, _DECISIONS_PART, **plan.keys)
    elif plan.lake.parts("decisions", **plan.keys):
        plan.lake.keep_only("decisions", (), **plan.keys)


def _saved(
    plan: RunPlan, evidence: Evidence, judged: Iterable[JudgeVerdict]
) -> dict[str, float | None]:
    """Estimate the calls, tokens and USD of the problems that were not played.

    The estimate uses the means over the problems that were played.
    """
    asked_ids = set(plan.members.problem_ids)
    n_saved = sum(problem not in asked_ids for problem in evidence.order)
    if not asked_ids:
        return {}
    played = frozenset(plan.members.ids.to_pylist())
    spent = with_episodes(empty_account(plan), plan, played, {}, 0)
    if plan.judges:
        spent = with_judgements(
            spent, plan, list({row.judgement_id: row for row in judged}.values()), 0, 0
        )
    each = n_saved / len(asked_ids)
    tokens = None if spent.n_unknown_tokens else (spent.input_tokens + spent.output_tokens) * each
    return {
        "saved_calls": spent.model_calls * each,
        "saved_tokens": tokens,
        "saved_usd": None if spent.usd is None else spent.usd * each,
    }
