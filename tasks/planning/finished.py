"""What is told of a run at which there is nothing left to do."""

from schemas.errors import ParleyError
from tasks.planning.plan import RunPlan
from tasks.planning.report import RunReport


def finished_report(plan: RunPlan) -> RunReport:
    """How a finished run ended, from its record; nothing was asked or run for it now.

    Raises:
        ParleyError: the run has no record; ask `plan.is_finished()` first.
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
        n_quarantined=len(plan.staged.quarantined),
        docs_path=record.docs_path,
    )
