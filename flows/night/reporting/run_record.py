"""Records of an invocation: each run's row and report, and the rows of the night."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from flows.night.preflight.served_models import endpoint_facts
from schemas.content_id import canonical_json, content_id
from schemas.episode import Episode, Score
from schemas.lake.records import NightRecord, RunRecord, utc_now
from schemas.lake.rows import PackedRows
from schemas.night.budget import CapSpent
from schemas.night.cost import sum_usd
from schemas.night.work import FailedRun, RequestCounts, RunWork, StageTime
from tasks.audit import AuditDone, VerdictKey
from tasks.check_quality import Checked
from tasks.converse import Conversed
from tasks.judge import Judged
from tasks.planning.participants.models import (
    batched_roles,
    keep_models,
    recorded_profiles,
    role_cost,
    sampling_rows,
)
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.account import (
    account_at_start,
    begun_episodes,
    with_begun,
    with_episodes,
    with_judgements,
)
from tasks.planning.reporting.report import (
    RunReport,
    forged_because,
    run_report,
    with_counts,
    withheld_because,
    works,
)
from tasks.planning.version import parley_version
from tasks.stage import StageResult
from tasks.storage.home import Home
from tasks.storage.ledger import Sum, read_sends, remove_sends
from tasks.storage.parquet_store import Lake
from warehouse.lake import SEALED

Ending = Literal["finished", "incomplete", "failed"]
"""How an invocation ended: its stages ended, a cap of the budget stopped it, or an error did."""


@dataclass
class Work:
    """Work of one invocation's stages so far."""

    night_id: str
    started_at: str
    before: RunRecord | None
    """Record of the run's previous invocation. None for a new run."""
    account: RunWork
    """Account of the run at the start."""
    pending: frozenset[str]
    """Episodes that were unfinished at the start."""
    sends_before: RequestCounts
    """Requests that an earlier, killed invocation sent."""
    conversed: Conversed = field(default_factory=Conversed)
    episodes: PackedRows[Episode] = field(default_factory=lambda: PackedRows("episodes"))
    executed: StageResult = field(default_factory=StageResult)
    to_audit: Mapping[VerdictKey, str] = field(default_factory=dict[VerdictKey, str])
    """Verdict id of each passed test that the audit covers."""
    audited: AuditDone = field(default_factory=AuditDone)
    judged: Judged = field(default_factory=Judged)
    scores: Sequence[Score] = ()
    checked: Checked | None = None
    """Results of the quality checks. None if the run ended before its last check."""
    spent: Sum = field(default_factory=Sum)
    """Usage of the run's models in this invocation, if a cap of the budget stopped the run."""
    n_programs: int = 0
    """Number of the run's verdicts for which a program was run."""
    n_unreadable: int = 0
    """Number of answers in which no program was found."""
    n_tampered: int = 0
    """Number of verdicts whose answer tampered with its tests."""
    n_drift_calls: int = 0
    """Number of requests for the judges' bundled drift cases.

    Their cost counts for the night, not for the run.
    """
    is_recorded: bool = False
    """True if the lake has a record of this invocation."""
    is_begun: bool = False
    """False before the run begins, and while it waits to play its dialogues."""
    is_whole: bool = True
    """False if a quality check stopped the run."""


def remove_leftovers(plan: RunPlan) -> None:
    """Remove unfinished files of killed writers. The caller must hold the run's lock."""
    for table in (*SEALED, "served_hours", "decisions", "runs"):
        plan.lake.remove_leftovers(table, **plan.keys)


def find_work(plan: RunPlan, night_id: str, started_at: str) -> Work:
    """Return the state of a run before an invocation works on it."""
    before = plan.record()
    return Work(
        night_id,
        started_at,
        before,
        account_at_start(plan, before),
        frozenset(plan.pending().ids.to_pylist()),
        read_sends(plan.home.sends(plan.run_id)),
    )


def begin_run(plan: RunPlan, night_id: str, started_at: str) -> Work:
    """Count finished work, record that the run is active, and record its models."""
    work = find_work(plan, night_id, started_at)
    work.is_recorded = work.is_begun = True
    unknown = work.account.model_copy(update={"requests": None})
    _write(plan, _record(plan, work).model_copy(update={"work": unknown}))
    return work


_CAUSES: Mapping[Ending, str] = {
    "incomplete": "stopped at the budget",
    "failed": "stopped by an error",
}


def close_run(plan: RunPlan, work: Work, ending: Ending, reason: str | None = None) -> RunReport:
    """Record how an invocation of a run ended, and return the run's report.

    A finished run is withheld if too many of its episodes are faulty, a quality check failed, or
    too many passes are forged. The answers of any other run stay stored, so the next invocation
    resumes it. If the invocation did not begin, a record of earlier work stays unchanged.

    Args:
        reason: The cap and the amount spent, or the error.
    """
    record, facts = _record(plan, work), dict[str, object]()
    if ending == "finished":
        record, facts = _with_results(plan, work, record)
    elif reason:
        cause = _CAUSES[ending] if work.is_begun else "not started"
        record = record.model_copy(update={"withheld_reason": f"{cause}: {reason}"})
    done = _account(plan, work, ending if ending == "failed" else record.status)
    record = record.model_copy(
        update={"work": done, "model_calls": done.model_calls, "finished_at": utc_now()}
    )
    if work.is_recorded or work.before is None:
        _write(plan, record)
        # The record contains the request counts.
        remove_sends(plan.home.sends(plan.run_id))
    report = run_report(plan, done.status, record.withheld_reason, done, record)
    return report.model_copy(update=facts)


def _record(plan: RunPlan, work: Work) -> RunRecord:
    """Return the record of a run that has no results."""
    spec, before, subsample = plan.spec, work.before, plan.request.benchmark.subsample
    return RunRecord(
        run_id=plan.run_id,
        night_id=work.night_id,
        benchmark=spec.benchmark,
        model=spec.label,
        setting=spec.full_setting,
        dataset_version=spec.dataset_version,
        revision=spec.subject.revision,
        spec_json=canonical_json(spec),
        sandbox=spec.sandbox,
        isolated=plan.isolated,
        samples=spec.samples,
        seed=spec.seed,
        status="incomplete",
        started_at=work.started_at,
        finished_at=utc_now(),
        n_episodes=0,
        n_owed=len(plan.pending()),
        n_infra=0,
        n_unscored=0,
        n_truncated=0,
        n_tampered=work.n_tampered,
        n_unreadable=work.n_unreadable,
        batched=tuple(sorted({*batched_roles(plan.models), *(before.batched if before else ())})),
        profiles=recorded_profiles(before, {**work.conversed.profiles, **work.judged.profiles}),
        endpoints=endpoint_facts(plan),
        samplings=sampling_rows(plan.benchmark.setting(spec.setting).roles_of_models(spec)),
        model_calls=0,
        parley_version=parley_version(),
        state=_sealed(dict(before.state) if before else {}, work),
        task_share=plan.task_share,
        subsample_seed=None if plan.task_share is None or subsample is None else subsample.seed,
    )


def _sealed(state: Mapping[str, str], work: Work) -> tuple[tuple[str, str], ...]:
    """Return a run's state, with digests of the files that were checked."""
    return tuple({**state, **(work.checked.seal if work.checked else {})}.items())


def _with_results(
    plan: RunPlan, work: Work, record: RunRecord
) -> tuple[RunRecord, dict[str, object]]:
    """Add the results to a run's record, and decide whether the run is withheld.

    Returns:
        The record, and the fields of the run's report that only this invocation knows.
    """
    n_wanted = len(plan.members) if work.is_whole else len(work.episodes)
    record, n_faulty, n_answers = with_counts(record, n_wanted, work.episodes, work.scores)
    stages = (work.conversed, work.executed, work.judged)
    faulty = next((stage for stage in stages if stage.error), StageResult())
    reason = withheld_because(
        record,
        n_faulty,
        plan.request.max_fault_share,
        work.checked.failures if work.checked else (),
        faulty.error,
        is_permanent=faulty.is_permanent and faulty is not work.executed,
    ) or forged_because(work.audited.counts, plan.request.max_forged_share)
    state = plan.state()
    results = {
        "status": "withheld" if reason else "finished",
        "withheld_reason": reason,
        "docs_path": work.checked.docs_path if work.checked else None,
        "state_digest": None if reason else content_id(state),
        "state": _sealed(state, work),
    }
    facts: dict[str, object] = {
        "episodes": len(work.episodes),
        "n_drift_calls": work.n_drift_calls,
        "audit": work.audited.counts,
        "n_answers": n_answers,
        "n_too_long": sum(episode.is_too_long for episode in work.episodes),
    }
    return record.model_copy(update=results), facts


def _account(plan: RunPlan, work: Work, status: str) -> RunWork:
    """Return an account of the run: how much was reused, and how much was paid."""
    done = work.account.model_copy(update={"status": status, "n_episodes": len(plan.members)})
    if not work.is_recorded:
        return done
    requests = read_sends(plan.home.sends(plan.run_id)) - work.sends_before
    done = done.model_copy(update={"requests": requests})
    done = _spent(plan, work, done) if status == "incomplete" else _paid(plan, work, done)
    if status in ("incomplete", "failed"):
        begun = begun_episodes(plan, work.pending)
        done = with_begun(done, begun, work.conversed.resumed_steps)
    return done


def _paid(plan: RunPlan, work: Work, done: RunWork) -> RunWork:
    """Add the paid work of all stages, as the lake contains it."""
    judged, n_run = work.judged, work.conversed.n_run + work.executed.n_run
    done = with_episodes(
        done,
        plan,
        work.pending,
        work.conversed.resumed_steps,
        work.conversed.model_calls,
        judged.new_rows if plan.judges else (),
    ).model_copy(update={"programs_run": n_run, "programs_reused": max(0, work.n_programs - n_run)})
    return (
        with_judgements(done, plan, judged.new_rows, judged.n_reused, judged.model_calls)
        if plan.judges
        else done
    )


def _spent(plan: RunPlan, work: Work, done: RunWork) -> RunWork:
    """Add the usage that the budget's ledger counted. It includes unfinished dialogues."""
    spent = work.spent
    costs = (role_cost(plan.lake, model) for model in plan.models)
    has_prices = sum_usd(costs) is not None
    return done.model_copy(
        update={
            "model_calls": spent.calls,
            "input_tokens": spent.input_tokens,
            "output_tokens": spent.output_tokens,
            "n_unknown_tokens": spent.n_estimated,
            "usd": spent.usd if not spent.n_estimated and has_prices else None,
            "programs_run": work.conversed.n_run + work.executed.n_run,
            "judgements_asked": work.judged.n_new,
        }
    )


def _write(plan: RunPlan, record: RunRecord) -> None:
    """Write the run's record and its models."""
    keep_models(plan.lake, plan.models)
    plan.lake.write_part("runs", [record], "0", **plan.keys)


def record_night(
    home: Home,
    night_id: str,
    started: str,
    reports: Sequence[RunReport],
    budget: Sequence[CapSpent] = (),
    times: Sequence[StageTime] = (),
) -> None:
    """Write a night's runs, the amount spent of each cap, and the stage times to the lake."""
    row = NightRecord(
        night_id=night_id,
        started_at=started,
        finished_at=utc_now(),
        run_ids=tuple(report.run_id for report in reports if report.run_id),
        n_published=sum(report.is_published for report in reports),
        n_withheld=sum(report.status == "withheld" for report in reports),
        work=works(reports),
        budget=tuple(budget),
    )
    lake = Lake(home.lake)
    lake.write_part("nights", [row], "0", night_id=night_id)
    lake.write_part("stage_times", times, "0", night_id=night_id)
    if failed := tuple(_failed(night_id, reports)):
        lake.write_part("failed_runs", failed, "0", night_id=night_id)


def _failed(night_id: str, reports: Sequence[RunReport]) -> Iterator[FailedRun]:
    for report in reports:
        if report.status == "failed":
            yield FailedRun(
                night_id=night_id,
                run_id=report.run_id,
                title=report.title,
                setting=report.setting,
                model=report.model,
                reason=report.reason or "",
            )


def record_publication(home: Home, night_id: str, times: Sequence[StageTime]) -> None:
    """Write how long the publication took.

    A publication cannot contain its own duration, so the lake has a table for it.
    """
    Lake(home.lake).write_part("publication_times", times, "0", night_id=night_id)
