"""Report of a run that has no pending work."""

from collections.abc import Sequence

from schemas.audit import ForgeryAudit, audit_counts
from schemas.errors import ParleyError
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.account import empty_account, find_start_state
from tasks.planning.reporting.report import RunReport
from tasks.storage.home import Home


def finished_report(plan: RunPlan) -> RunReport:
    """Return the report of a finished run, made from its record. No request is sent.

    Raises:
        ParleyError: the run has no record. Call `plan.is_finished()` first.
    """
    record = plan.record()
    if record is None:
        raise ParleyError(f"run {plan.run_id} has no record in {plan.lake.root}")
    return RunReport(
        run_id=plan.run_id,
        title=plan.request.title,
        setting=record.setting,
        model=record.model,
        status=record.status,
        episodes=record.n_episodes,
        n_infra=record.n_infra,
        n_unscored=record.n_unscored,
        n_truncated=record.n_truncated,
        n_tampered=record.n_tampered,
        audit=audit_counts(plan.lake.read("forgery_audit", ForgeryAudit, **plan.keys)),
        n_refused=record.n_refused,
        n_empty=record.n_empty,
        n_cut_off=record.n_cut_off,
        n_unreadable=record.n_unreadable,
        adapted=record.adapted,
        n_quarantined=len(plan.staged.quarantined),
        docs_path=record.docs_path,
        work=empty_account(plan, find_start_state(plan, record), record.status),
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
