"""Flow: one model on one setting of one benchmark, from raw rows to scores."""

from typing import TypeVar, cast

from prefect import flow
from prefect.utilities.annotations import quote

from flows.night.run_record import Work, begin_run, finish_run, remove_leftovers
from flows.night.runtime import Night, night
from flows.orchestration.artifacts import ProgressArtifact
from schemas.episode import Episode
from schemas.rows import from_arrow
from schemas.verdict import FailureReason, TestVerdict
from tasks.check_quality import QualityGate, StoppedByCheck
from tasks.converse import Conversed, context_for, converse, settle
from tasks.execute import execute, expected_verdicts
from tasks.planning.finished import finished_report
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.report import RunReport
from tasks.planning.request import EvaluationRequest
from tasks.score import score, verdict_rows
from tasks.stage import stage
from tasks.storage.clock import utc_now
from tasks.storage.home import find_home
from tasks.worker import converse_shard, execute_shard

T = TypeVar("T")


@flow(name="evaluate_model", flow_run_name="{request.title}", validate_parameters=False)
def evaluate_model(request: EvaluationRequest, home: str | None = None) -> RunReport:
    """Evaluate; returns how it ended. Repeats no finished work.

    Raises:
        ParleyError: it could not be begun, or was stopped. Finished work is kept.
    """
    with night(find_home(home), request.workers) as tonight:
        plan = plan_run(request, tonight.home)
        if plan.is_finished():
            return finished_report(plan)
        with plan.home.run_lock(plan.run_id):
            return _evaluate(tonight, plan)


def _evaluate(tonight: Night, plan: RunPlan) -> RunReport:
    tonight.preflight(plan)
    begun = utc_now()
    remove_leftovers(plan)
    work = begin_run(plan, tonight.night_id, begun)
    gate = QualityGate(plan, plan.request.title, tonight.check_table)
    try:
        _work(tonight, plan, gate, work)
    except StoppedByCheck:
        work.is_whole = False
    tonight.board.stage(plan.request.title, "keep")
    return finish_run(plan, tonight.night_id, begun, work, gate.finish())


def _work(tonight: Night, plan: RunPlan, gate: QualityGate, work: Work) -> None:
    title, board = plan.request.title, tonight.board
    board.stage(title, "stage")
    stage(plan, title)
    gate.dialogs()
    gate.problems()

    work.conversed = _converse(tonight, plan, title)
    rows = plan.episodes.rows(w.episode_id for w in plan.members)
    gate.episodes(rows)
    work.episodes = tuple(from_arrow(rows, Episode))

    context = context_for(plan, workers=tonight.n_workers, cores=tonight.cores)
    board.stage(title, execute_shard.STAGE, len(work.episodes))
    progress = ProgressArtifact(f"{title}: execute", len(work.episodes))
    episodes, client = _unlooked(work.episodes), tonight.client()
    work.executed = execute(plan, context, episodes, client, title, lambda r: _advance(progress, r.n_episodes))
    progress.done()
    board.done(len(work.episodes))
    verdicts = verdict_rows(plan)
    work.n_programs = len(verdicts) - verdicts["verdict_id"].null_count
    work.n_tampered = verdicts["reason"].to_pylist().count(FailureReason.TAMPERING)
    gate.test_verdicts(verdicts, work.episodes, expected_verdicts(context, plan, work.episodes))

    board.stage(title, "score")
    work.scores = score(plan, episodes, _unlooked(from_arrow(verdicts, TestVerdict)), title)
    gate.scores(work.episodes)


def _converse(tonight: Night, plan: RunPlan, title: str) -> Conversed:
    owed = plan.owed()
    tonight.board.stage(title, converse_shard.STAGE, len(owed))
    tonight.board.expect(sum(plan.due(w.dialog).rounds for w in owed))
    if not owed:
        settle(plan)
        return Conversed()
    tonight.prepare_publication()
    progress = ProgressArtifact(f"{title}: converse", len(owed))
    served = tonight.model_servers(plan)
    context = context_for(plan, workers=tonight.n_workers, cores=tonight.cores, served=served)
    done = converse(plan, context, tonight.client(), title, lambda r: _advance(progress, r.n_episodes))
    progress.done()
    tonight.board.done(len(owed) - done.n_owed)
    return done


def _advance(progress: ProgressArtifact, n_episodes: int) -> None:
    progress.advance(n_episodes)


def _unlooked(rows: T) -> T:
    """Rows as a task's argument: Prefect would look into each for states of other tasks, which takes longer than the task."""
    return cast(T, quote(rows))
