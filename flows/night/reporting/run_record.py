"""Record of an invocation's work on a run: the row of the run in the lake, and its report."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from flows.night.preflight.served_models import endpoint_facts
from schemas.content_id import canonical_json, content_id
from schemas.episode import Episode
from schemas.errors import ParleyError
from schemas.lake.packed_rows import PackedRows
from schemas.lake.records import RunRecord, RunStatus, utc_now
from schemas.night.cost import sum_usd
from schemas.night.decision import Decision
from schemas.night.requests import RequestCounts
from schemas.night.work import RunWork
from schemas.score import Score
from tasks.audit import AuditDone
from tasks.check_quality import Checked
from tasks.converse import Conversed
from tasks.driver.auditing import VerdictKey
from tasks.driver.stage import StageResult
from tasks.judge import Judged
from tasks.planning.participants.models import (
    batched_roles,
    keep_models,
    recorded_profiles,
    role_cost,
    samplings_of,
)
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.account import (
    StartState,
    begun_episodes,
    empty_account,
    find_start_state,
    with_begun,
    with_episodes,
    with_judgements,
)
from tasks.planning.reporting.report import (
    RunReport,
    Tally,
    forged_because,
    tally,
    withheld_because,
)
from tasks.planning.request import EvaluationRequest
from tasks.planning.version import parley_version
from tasks.storage.ledger import Sum, read_sends, remove_sends

NOTHING_YET = Tally(n_episodes=0, n_faulty=0, n_infra=0, n_unscored=0, n_truncated=0)


@dataclass
class Work:
    """Work of one invocation's stages so far."""

    earlier: StartState
    conversed: Conversed = field(default_factory=Conversed)
    episodes: PackedRows[Episode] = field(default_factory=lambda: PackedRows("episodes"))
    executed: StageResult = field(default_factory=StageResult)
    to_audit: Mapping[VerdictKey, str] = field(default_factory=dict[VerdictKey, str])
    """Verdict id of each passed test that the audit covers."""
    audited: AuditDone = field(default_factory=AuditDone)
    judged: Judged = field(default_factory=Judged)
    scores: Sequence[Score] = ()
    decisions: tuple[Decision, ...] = ()
    """Early decisions of the run's comparison, one row per metric.

    The tuple is empty if all requests were sent.
    """
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
    sends_before: RequestCounts = field(default_factory=RequestCounts)
    """Requests that an earlier, killed invocation sent."""
    is_begun: bool = True
    """False while the run waits to play its dialogues."""
    is_whole: bool = True
    """False if a quality check stopped the run."""

    def keep_wanted(self, plan: RunPlan) -> None:
        """Remove pending episodes that the run's early decision made unnecessary."""
        wanted = set(plan.wanted.ids.to_pylist())
        self.earlier = replace(self.earlier, pending=self.earlier.pending & wanted)


def remove_leftovers(plan: RunPlan) -> None:
    """Remove unfinished files of killed writers. The caller must hold the run's lock."""
    for table in (
        "episodes",
        "test_verdicts",
        "forgery_audit",
        "judge_verdicts",
        "scores",
        "run_episodes",
        "quality_checks",
        "served_hours",
        "decisions",
        "runs",
    ):
        plan.lake.remove_leftovers(table, **plan.keys)


def finish_run(plan: RunPlan, night_id: str, begun: str, work: Work, checked: Checked) -> RunReport:
    """Decide whether the run may be published, record the decision, and return the report."""
    counts = tally(
        len(plan.members) if work.is_whole else len(work.episodes), work.episodes, work.scores
    )
    fault = work.conversed.error or work.executed.error or work.judged.error
    is_permanent = (
        work.conversed.is_permanent
        if work.conversed.error
        else work.judged.is_permanent and not work.executed.error
    )
    reason = withheld_because(
        counts, plan.request.max_fault_share, checked.failures, fault, is_permanent=is_permanent
    )
    reason = reason or forged_because(work.audited.counts, plan.request.max_forged_share)
    status: RunStatus = "withheld" if reason else "finished"
    if not work.is_whole:
        work.conversed.n_pending = len(plan.pending())
    keep_models(plan)
    done = account(plan, work, status)
    work.conversed.model_calls = done.model_calls
    _write_end(plan, night_id, begun, done, counts, work, reason, checked)
    return RunReport(
        run_id=plan.run_id,
        title=plan.request.title,
        setting=plan.spec.full_setting,
        model=plan.spec.label,
        status=status,
        reason=reason,
        episodes=len(work.episodes),
        pending=work.conversed.n_pending,
        model_calls=work.conversed.model_calls,
        n_infra=counts.n_infra,
        n_unscored=counts.n_unscored,
        n_truncated=counts.n_truncated,
        n_tampered=work.n_tampered,
        n_drift_calls=work.n_drift_calls,
        audit=work.audited.counts,
        n_answers=counts.n_answers,
        n_refused=counts.n_refused,
        n_empty=counts.n_empty,
        n_cut_off=counts.n_cut_off,
        n_unreadable=work.n_unreadable,
        adapted=counts.adapted,
        n_quarantined=len(plan.staged.quarantined),
        docs_path=checked.docs_path,
        work=done,
    )


def cut_run(
    plan: RunPlan, night_id: str, begun: str, work: Work, reason: str, spent: Sum
) -> RunReport:
    """Record and report a run that a cap of the budget stopped.

    Its answers stay stored, so the next run resumes.

    Args:
        reason: The cap and the amount spent.
        spent: Usage of the run's models in this invocation, including unfinished dialogues.
    """
    work.conversed.n_pending = len(plan.pending())
    done = with_begun(
        empty_account(plan, work.earlier, "incomplete"),
        begun_episodes(plan, work.earlier),
        work.conversed.resumed_steps,
    ).model_copy(
        update={
            "model_calls": spent.calls,
            "requests": _requests(plan, work),
            "input_tokens": spent.input_tokens,
            "output_tokens": spent.output_tokens,
            "n_unknown_tokens": spent.n_estimated,
            "usd": spent.usd if not spent.n_estimated and _has_prices(plan) else None,
            "programs_run": work.conversed.n_run + work.executed.n_run,
            "judgements_asked": work.judged.n_new,
        }
    )
    message = f"{'stopped at the budget' if work.is_begun else 'not started'}: {reason}"
    _write_end(plan, night_id, begun, done, NOTHING_YET, work, message)
    return _incomplete_report(plan, message, done)


def fail_run(plan: RunPlan, night_id: str, begun: str, work: Work | None, reason: str) -> None:
    """Record why an error stopped a run, and what was paid.

    If the lake is not writable, only the error is reported.

    Args:
        work: Work so far. None if the run was not begun: a record of earlier work then stays.
    """
    with suppress(ParleyError):  # The original error matters more than this one.
        if work is None:
            leave_run(plan, night_id, reason)
            return
        work.conversed.n_pending = len(plan.pending())
        done = with_begun(
            account(plan, work, "failed"),
            begun_episodes(plan, work.earlier),
            work.conversed.resumed_steps,
        )
        _write_end(plan, night_id, begun, done, NOTHING_YET, work, f"stopped by an error: {reason}")


def failed_report(
    request: EvaluationRequest, plan: RunPlan | None, night_id: str, reason: str
) -> RunReport:
    """Return the report of a run that an error stopped.

    Args:
        plan: Plan of the run. None if it could not be planned.
    """
    if plan is not None:
        # If the lake cannot be read, the report has no counts.
        with suppress(ParleyError):
            record = plan.record()
            work = record.work if record and record.night_id == night_id else None
            done = work if work and work.status == "failed" else None
            return _incomplete_report(plan, reason, done).model_copy(update={"status": "failed"})
    return RunReport(
        run_id=plan.run_id if plan else "",
        title=request.title,
        setting=request.benchmark.name,
        model=request.model.spec,
        status="failed",
        reason=reason,
    )


def _has_prices(plan: RunPlan) -> bool:
    """Return True if all token prices are known and at least one model costs by tokens."""
    return (
        sum_usd(role_cost(plan, identity, request) for identity, _, request in plan.models)
        is not None
    )


def leave_run(plan: RunPlan, night_id: str, reason: str) -> RunReport:
    """Report a run that was not begun because a cap was reached.

    A record of earlier work stays unchanged.
    """
    before, message = plan.record(), f"not started: {reason}"
    work = Work(find_start_state(plan, before))
    work.conversed.n_pending = len(work.earlier.pending)
    done = empty_account(plan, work.earlier, "incomplete")
    if before is None:
        now = utc_now()
        keep_models(plan)
        _write(plan, night_id, now, done, NOTHING_YET, work, message)
    return _incomplete_report(plan, message, done)


def _incomplete_report(plan: RunPlan, reason: str, done: RunWork | None) -> RunReport:
    pending = len(plan.pending())
    return RunReport(
        run_id=plan.run_id,
        title=plan.request.title,
        setting=plan.spec.full_setting,
        model=plan.spec.label,
        status="incomplete",
        reason=reason,
        episodes=len(plan.members) - pending,
        pending=pending,
        model_calls=done.model_calls if done else 0,
        n_quarantined=len(plan.staged.quarantined),
        work=done,
    )


def account(plan: RunPlan, work: Work, status: str) -> RunWork:
    """Return an account of the run: how much was reused, and how much was paid."""
    done = with_episodes(
        empty_account(plan, work.earlier, status),
        plan,
        work.earlier,
        work.conversed.resumed_steps,
        work.conversed.model_calls,
        work.judged.new_rows if plan.judges else (),
    )
    n_run = work.conversed.n_run + work.executed.n_run
    programs = {"programs_run": n_run, "programs_reused": max(0, work.n_programs - n_run)}
    done = done.model_copy(update={**programs, "requests": _requests(plan, work)})
    judged = work.judged
    return (
        with_judgements(done, plan, judged.new_rows, judged.n_reused, judged.model_calls)
        if plan.judges
        else done
    )


def _requests(plan: RunPlan, work: Work) -> RequestCounts:
    """Return the counts of this invocation's requests so far."""
    return read_sends(plan.home.sends(plan.run_id)) - work.sends_before


def begin_run(plan: RunPlan, night_id: str, begun: str) -> Work:
    """Count finished work, record that the run is active, and record its models."""
    before = plan.record()
    work = Work(
        find_start_state(plan, before), sends_before=read_sends(plan.home.sends(plan.run_id))
    )
    work.conversed.n_pending = len(work.earlier.pending)
    keep_models(plan)
    unknown = empty_account(plan, work.earlier, "incomplete").model_copy(update={"requests": None})
    _write(plan, night_id, begun, unknown, NOTHING_YET, work)
    return work


def _write_end(
    plan: RunPlan,
    night_id: str,
    begun: str,
    done: RunWork,
    counts: Tally,
    work: Work,
    reason: str | None,
    checked: Checked | None = None,
) -> None:
    """Write the record of a finished invocation. Remove the request counts that it contains."""
    _write(plan, night_id, begun, done, counts, work, reason, checked)
    remove_sends(plan.home.sends(plan.run_id))


def _write(
    plan: RunPlan,
    night_id: str,
    begun: str,
    done: RunWork,
    counts: Tally,
    work: Work,
    reason: str | None = None,
    checked: Checked | None = None,
) -> None:
    spec = plan.spec
    # A report can have states that a run record cannot have.
    status: RunStatus = "incomplete" if done.status == "failed" else done.status  # type: ignore[assignment]
    subsample = plan.request.benchmark.subsample
    before = work.earlier.before
    state = plan.state() if status != "incomplete" else dict(before.state) if before else {}
    row = RunRecord(
        run_id=plan.run_id,
        night_id=night_id,
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
        status=status,
        withheld_reason=reason,
        started_at=begun,
        finished_at=utc_now(),
        n_episodes=counts.n_episodes,
        n_owed=work.conversed.n_pending,
        n_infra=counts.n_infra,
        n_unscored=counts.n_unscored,
        n_truncated=counts.n_truncated,
        n_tampered=work.n_tampered,
        n_refused=counts.n_refused,
        n_empty=counts.n_empty,
        n_cut_off=counts.n_cut_off,
        n_unreadable=work.n_unreadable,
        batched=tuple(sorted({*batched_roles(plan), *(before.batched if before else ())})),
        adapted=counts.adapted,
        profiles=recorded_profiles(before, {**work.conversed.profiles, **work.judged.profiles}),
        endpoints=endpoint_facts(plan),
        samplings=samplings_of(plan),
        model_calls=done.model_calls,
        docs_path=checked.docs_path if checked else None,
        state_digest=content_id(state) if status == "finished" else None,
        parley_version=parley_version(),
        task_share=plan.task_share,
        subsample_seed=None if plan.task_share is None or subsample is None else subsample.seed,
        state=tuple({**state, **(checked.seal if checked else {})}.items()),
        work=done,
    )
    plan.lake.write_part("runs", [row], "0", **plan.keys)
