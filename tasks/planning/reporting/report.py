"""Report of a run's outcome, reasons to withhold a run, and rows of its early decision."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress

from schemas.audit import AuditCounts, ForgeryAudit, audit_counts
from schemas.base import Frozen
from schemas.dialog import Role
from schemas.episode import Episode, Score, StopReason, UnscoredReason
from schemas.errors import ParleyError
from schemas.lake.records import QualityCheck, RunRecord
from schemas.night.decision import ComparisonRule, Decision
from schemas.night.work import RunWork
from schemas.outside.display import LAST_FAULT
from schemas.verdict import JudgeVerdict
from tasks.dialogue.agents.repository.labels import ENDED, has_label
from tasks.planning.decisions.evidence import Evidence
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.account import (
    account_at_start,
    empty_account,
    with_episodes,
    with_judgements,
)
from tasks.planning.request import EvaluationRequest
from tasks.storage.home import Home


class RunReport(Frozen):
    """What a night shows of one run: how it ended, its row of `runs`, and facts of the night.

    The name, the status and the reason stand beside the row, because a run that could not be
    planned has none, and because a publication can withhold a finished run.
    """

    run_id: str
    """Id of the run; empty if it could not be planned."""
    title: str
    setting: str
    model: str
    status: str
    """A `RunStatus`, or `failed` if an error stopped the run without results."""
    reason: str | None = None
    record: RunRecord | None = None
    """Row of the run in `runs`; None for a failed run."""
    work: RunWork | None = None
    """Reused and paid work, and why work was pending; None for a failed run that never began."""
    episodes: int = 0
    """Number of episodes that the run has."""
    pending: int = 0
    n_quarantined: int = 0
    """Number of rows of the raw data that could not be staged."""
    n_drift_calls: int = 0
    """Number of requests that measured the drift of judges, once a night.

    `work.model_calls` excludes them.
    """
    audit: AuditCounts = AuditCounts()
    n_answers: int = 0
    """Number of answers of the subject."""
    n_too_long: int = 0
    """Number of episodes that ended because the conversation exceeded the model's context."""

    @property
    def is_published(self) -> bool:
        """True if the run finished and is not withheld."""
        return self.status == "finished"


def works(reports: Iterable[RunReport]) -> tuple[RunWork, ...]:
    """Return the reused and paid work of each run that began."""
    return tuple(report.work for report in reports if report.work is not None)


def run_report(
    plan: RunPlan,
    status: str,
    reason: str | None,
    work: RunWork | None,
    record: RunRecord | None = None,
) -> RunReport:
    """Return the report of a run that was planned.

    Args:
        plan: plan of the run.
        status: status to show.
        reason: why the run has this status; None for a finished run.
        work: account of this night's work for the run.
        record: row of the run in `runs`; None for a failed run.
    """
    n_pending = len(plan.pending())
    return RunReport(
        run_id=plan.run_id,
        title=plan.request.title,
        setting=plan.spec.full_setting,
        model=plan.spec.label,
        status=status,
        reason=reason,
        record=record,
        work=work,
        episodes=len(plan.members) - n_pending,
        pending=n_pending,
        n_quarantined=len(plan.staged.quarantined),
    )


def with_counts(
    record: RunRecord, n_wanted: int, episodes: Sequence[Episode], scores: Sequence[Score]
) -> tuple[RunRecord, int, int]:
    """Add the counts of a run's faults and answers, which decide whether it is withheld.

    A wanted episode that does not exist counts as infra.

    Args:
        record: record of the run.
        n_wanted: number of episodes that the run should have.
        episodes: episodes that the run has.
        scores: scores of the run.

    Returns:
        The record, the number of faulty episodes, and the number of answers of the subject. An
        episode is faulty if it ended as infra, does not exist, or lacks a score because of a fault.
    """
    faults = [s for s in scores if s.unscored_reason is not None and s.unscored_reason.is_fault]
    infra = {s.episode_id for s in faults if s.unscored_reason is UnscoredReason.INFRA}
    adapted: dict[str, set[str]] = defaultdict(set)
    counts, n_answers = Counter[str](n_truncated=0), 0
    for episode in episodes:
        if episode.stop_reason is StopReason.INFRA:
            infra.add(episode.episode_id)
        for step in episode.steps:
            if step.adapted:
                adapted["simulator" if step.role is Role.USER else "subject"].update(step.adapted)
        answers = [
            step
            for step in episode.messages
            if step.role is Role.ASSISTANT and not step.is_scripted and not has_label(step, ENDED)
        ]
        n_answers += len(answers)
        counts.update(
            n_truncated=sum(step.finish_reason in ("length", "cut_off") for step in episode.steps),
            n_refused=episode.stop_reason is StopReason.REFUSED,
            n_empty=sum(not step.content.strip() for step in answers),
            n_cut_off=sum(step.finish_reason == "cut_off" for step in answers),
        )
    missing = n_wanted - len(episodes)
    changes = tuple((role, ", ".join(sorted(names))) for role, names in sorted(adapted.items()))
    counted = record.model_copy(
        update={
            "n_episodes": n_wanted,
            "n_infra": len(infra) + missing,
            "n_unscored": len(faults),
            "adapted": changes,
            **counts,
        }
    )
    return counted, len(infra | {s.episode_id for s in faults}) + missing, n_answers


def withheld_because(
    counts: RunRecord,
    n_faulty: int,
    max_fault_share: float,
    failures: Sequence[QualityCheck],
    fault: str | None = None,
    *,
    is_permanent: bool = False,
) -> str | None:
    """Return the reason why a run must be withheld; None if it may be published.

    Args:
        counts: record of the run, with its counts.
        n_faulty: number of the run's faulty episodes.
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
    if n_faulty > max_fault_share * counts.n_episodes:
        share = (
            f"{n_faulty} of {counts.n_episodes} episodes have infra faults or unscored turns"
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
    audit = audit_counts(plan.lake.read("forgery_audit", ForgeryAudit, **plan.keys))
    report = run_report(plan, record.status, record.withheld_reason, work, record)
    return report.model_copy(update={"audit": audit})


def failed_report(
    request: EvaluationRequest, plan: RunPlan | None, night_id: str, reason: str
) -> RunReport:
    """Return the report of a run that an error stopped.

    Args:
        request: request of the run.
        plan: plan of the run. None if it could not be planned.
        night_id: the night. Its account of the run is shown, if the run began.
        reason: the error.
    """
    # If the lake cannot be read, the report has no counts.
    with suppress(ParleyError):
        if plan is not None:
            record = plan.record()
            work = record.work if record and record.night_id == night_id else None
            done = work if work and work.status == "failed" else None
            return run_report(plan, "failed", reason, done)
    return RunReport(
        run_id=plan.run_id if plan else "",
        title=request.title,
        setting=request.benchmark.name,
        model=request.model.spec,
        status="failed",
        reason=reason,
    )


def as_published(home: Home, reports: Sequence[RunReport]) -> list[RunReport]:
    """Return the reports with each run's status and reason as the warehouse shows them.

    Publication itself may withhold a run. A withheld run that a person released is published.
    """
    from tasks.planning.reporting.publishing import unpublished_reasons

    whole = ("finished", "withheld")
    reasons = unpublished_reasons(home, [r.run_id for r in reports if r.status in whole])

    def shown(report: RunReport) -> RunReport:
        if report.status not in whole:
            return report
        if report.run_id not in reasons:
            return report.model_copy(update={"status": "finished"})
        if report.status == "withheld":
            return report
        return report.model_copy(update={"status": "withheld", "reason": reasons[report.run_id]})

    return [shown(report) for report in reports]


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
