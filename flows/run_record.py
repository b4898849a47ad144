"""How a run stands: what an invocation did, kept as its record in the lake and told as its report."""

from dataclasses import dataclass, field

from schemas.content_id import canonical_json
from schemas.episode import Episode
from schemas.run import RunRecord, RunStatus
from schemas.score import Score
from tasks.check_quality import Checked
from tasks.converse import Conversed
from tasks.execute import Executed
from tasks.planning.models import keep_models
from tasks.planning.plan import RunPlan, parley_version
from tasks.planning.report import RunReport, Tally, tally, withheld_because
from tasks.storage.clock import utc_now

NOTHING_YET = Tally(n_episodes=0, n_faulty=0, n_infra=0, n_unscored=0, n_truncated=0)


@dataclass
class Work:
    """What the stages of one invocation have made so far."""

    conversed: Conversed = field(default_factory=Conversed)
    episodes: tuple[Episode, ...] = ()
    executed: Executed = field(default_factory=lambda: Executed(parts=()))
    scores: tuple[Score, ...] = ()
    is_whole: bool = True
    """False where a quality check stopped it."""


def remove_leftovers(plan: RunPlan) -> None:
    """Remove the unfinished files of killed writers. The caller holds the run."""
    for table in ("episodes", "test_verdicts", "scores", "run_episodes", "quality_checks", "runs"):
        plan.lake.remove_leftovers(table, **plan.keys)


def finish_run(plan: RunPlan, night_id: str, begun: str, work: Work, checked: Checked) -> RunReport:
    """Decide whether the run may be published, keep that, and tell it."""
    counts = tally(len(plan.members) if work.is_whole else len(work.episodes), work.episodes, work.scores)
    reason = withheld_because(counts, plan.request.max_fault_share, checked.failures)
    fault = work.conversed.error or work.executed.error
    if reason and fault:
        reason = f"{reason}. The last fault: {fault}"
    status: RunStatus = "withheld" if reason else "finished"
    if not work.is_whole:
        work.conversed.n_owed = len(plan.owed())
    record_run(plan, night_id, begun, status, counts, work.conversed, reason, checked.docs_path)
    return RunReport(
        run_id=plan.run_id,
        title=plan.request.title,
        setting=plan.spec.full_setting,
        model=plan.spec.subject.label,
        status=status,
        reason=reason,
        episodes=len(work.episodes),
        owed=work.conversed.n_owed,
        model_calls=work.conversed.model_calls,
        n_infra=counts.n_infra,
        n_unscored=counts.n_unscored,
        n_truncated=counts.n_truncated,
        n_quarantined=len(plan.staged.quarantined),
        docs_path=checked.docs_path,
    )


def record_run(
    plan: RunPlan,
    night_id: str,
    begun: str,
    status: RunStatus,
    counts: Tally,
    conversed: Conversed | None = None,
    reason: str | None = None,
    docs_path: str | None = None,
) -> None:
    """Write the run's record, and the models it uses, to the lake."""
    spec = plan.spec
    row = RunRecord(
        run_id=plan.run_id,
        night_id=night_id,
        benchmark=spec.benchmark,
        model=spec.subject.label,
        setting=spec.full_setting,
        dataset_version=spec.dataset_version,
        revision=spec.subject.revision,
        spec_json=canonical_json(spec),
        sandbox=spec.sandbox,
        isolated=plan.isolated,
        samples=spec.samples,
        seed=spec.seed,
        status=status,
        withheld_reason=reason,
        started_at=begun,
        finished_at=utc_now(),
        n_episodes=counts.n_episodes,
        n_owed=conversed.n_owed if conversed else len(plan.owed()),
        n_infra=counts.n_infra,
        n_unscored=counts.n_unscored,
        n_truncated=counts.n_truncated,
        model_calls=conversed.model_calls if conversed else 0,
        docs_path=docs_path,
        state_digest=plan.state_digest() if status == "finished" else None,
        parley_version=parley_version(),
    )
    keep_models(plan)
    plan.lake.write_part("runs", [row], "0", **plan.keys)
