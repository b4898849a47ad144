"""Flow: one model on one setting of one benchmark, from raw rows to scores."""

from datetime import UTC, datetime

from prefect import flow

from flows.artifacts import ProgressArtifact
from flows.preflight import preflight
from flows.runtime import Night, night
from schemas.content_id import canonical_json
from schemas.episode import Episode
from schemas.run import RunRecord, RunStatus
from schemas.score import Score
from tasks.check_quality import Checked, QualityGate
from tasks.converse import Conversed, context_for, converse, write_members
from tasks.execute import execute, expected_verdicts
from tasks.planning.plan import RunPlan, parley_version, plan_run
from tasks.planning.report import RunReport, Tally, tally, withheld_because
from tasks.planning.request import EvaluationRequest
from tasks.score import read_verdicts, score
from tasks.shards import converse_shard, execute_shard
from tasks.stage import stage
from tasks.storage.home import find_home
from tasks.storage.owed import read_episodes


@flow(name="evaluate_model", flow_run_name="{request.title}", validate_parameters=False)
def evaluate_model(request: EvaluationRequest, home: str | None = None) -> RunReport:
    """Evaluate; returns how it ended. What is already there is not done again.

    Raises:
        ParleyError: it could not be begun or was stopped; what was done is kept.
    """
    with night(find_home(home), request.workers) as tonight:
        plan = plan_run(request, tonight.home)
        with plan.home.run_lock(plan.run_id):
            return _evaluate(tonight, plan)


def _evaluate(tonight: Night, plan: RunPlan) -> RunReport:
    started, title, board = _now(), plan.request.title, tonight.board
    preflight(plan)
    _remove_leftovers(plan)
    _record(plan, tonight, started, "incomplete", Tally(n_episodes=0, n_faulty=0, n_infra=0, n_unscored=0, n_truncated=0))
    gate = QualityGate(plan, title)

    board.stage(title, "stage")
    stage(plan, title)
    gate.dialogs()
    gate.problems()

    conversed = _converse(tonight, plan, title)
    episodes = _members(plan)
    gate.episodes(episodes)

    context = context_for(plan, workers=tonight.n_workers, cores=tonight.cores)
    board.stage(title, execute_shard.STAGE, len(episodes))
    progress = ProgressArtifact(f"{title}: execute", len(episodes))
    executed = execute(plan, context, episodes, tonight.client(), title, lambda r: progress.advance(r.n_verdicts))
    progress.done()
    gate.test_verdicts(read_verdicts(plan), episodes, expected_verdicts(context, plan, episodes))

    board.stage(title, "score")
    scores = score(plan, episodes, title)
    gate.scores(scores, episodes)
    board.stage(title, "check quality")
    return _finish(tonight, plan, started, conversed, executed.n_run, episodes, scores, gate.finish())


def _converse(tonight: Night, plan: RunPlan, title: str) -> Conversed:
    owed = plan.owed()
    tonight.board.stage(title, converse_shard.STAGE, len(owed))
    if not owed:
        write_members(plan)
        return Conversed()
    progress = ProgressArtifact(f"{title}: converse", len(owed))
    with tonight.model_server(plan) as base_url:
        context = context_for(plan, workers=tonight.n_workers, cores=tonight.cores, base_url=base_url)
        done = converse(plan, context, tonight.client(), title, lambda r: progress.advance(r.n_episodes))
    progress.done()
    return done


def _members(plan: RunPlan) -> tuple[Episode, ...]:
    found = read_episodes(plan.lake, plan.spec.benchmark, plan.spec.subject.label, [w.episode_id for w in plan.members])
    return tuple(found[w.episode_id] for w in plan.members if w.episode_id in found)


def _finish(
    tonight: Night,
    plan: RunPlan,
    started: str,
    conversed: Conversed,
    programs_run: int,
    episodes: tuple[Episode, ...],
    scores: tuple[Score, ...],
    checked: Checked,
) -> RunReport:
    counts = tally(len(plan.members), episodes, scores)
    reason = withheld_because(counts, plan.request.max_fault_share, checked.failures)
    if reason and conversed.error:
        reason = f"{reason}. Last fault: {conversed.error}"
    status: RunStatus = "withheld" if reason else "finished"
    _record(plan, tonight, started, status, counts, conversed, reason, checked.docs_path)
    return RunReport(
        run_id=plan.run_id,
        title=plan.request.title,
        setting=plan.spec.full_setting,
        model=plan.spec.subject.label,
        status=status,
        reason=reason,
        episodes=len(episodes),
        owed=conversed.n_owed,
        model_calls=conversed.model_calls,
        programs_run=programs_run,
        n_infra=counts.n_infra,
        n_unscored=counts.n_unscored,
        n_truncated=counts.n_truncated,
        docs_path=checked.docs_path,
    )


def _record(
    plan: RunPlan,
    tonight: Night,
    started: str,
    status: RunStatus,
    counts: Tally,
    conversed: Conversed | None = None,
    reason: str | None = None,
    docs_path: str | None = None,
) -> None:
    spec = plan.spec
    row = RunRecord(
        run_id=plan.run_id,
        night_id=tonight.night_id,
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
        started_at=started,
        finished_at=_now(),
        n_episodes=counts.n_episodes,
        n_owed=conversed.n_owed if conversed else len(plan.owed()),
        n_infra=counts.n_infra,
        n_unscored=counts.n_unscored,
        n_truncated=counts.n_truncated,
        model_calls=conversed.model_calls if conversed else 0,
        docs_path=docs_path,
        state_digest=plan.state_digest if status == "finished" else None,
        parley_version=parley_version(),
    )
    for model in plan.model_records():
        plan.lake.write_part("models", [model], "0", model=model.model)
    plan.lake.write_part("runs", [row], "0", **plan.keys)


def _remove_leftovers(plan: RunPlan) -> None:
    for table in ("episodes", "test_verdicts", "scores", "run_episodes", "quality_checks", "runs"):
        plan.lake.remove_leftovers(table, **plan.keys)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
