"""Flow: one model on one setting of one benchmark, from raw rows to scores."""

from prefect import flow

from flows.night.run_record import begin_run, finish_run, remove_leftovers
from flows.night.runtime import Night, night
from flows.night.stages import Stages
from tasks.check_quality import QualityGate, StoppedByCheck
from tasks.planning.finished import finished_report
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.report import RunReport
from tasks.planning.request import EvaluationRequest
from tasks.storage.clock import utc_now
from tasks.storage.home import find_home


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
        _stages(Stages(tonight, plan, work), gate)
    except StoppedByCheck:
        work.is_whole = False
    tonight.board.stage(plan.request.title, "keep")
    return finish_run(plan, tonight.night_id, begun, work, gate.finish())


def _stages(run: Stages, gate: QualityGate) -> None:
    run.stage()
    gate.dialogs()
    gate.problems()
    run.converse()
    episodes = run.episode_rows()
    gate.episodes(episodes)
    run.take_episodes(episodes)
    verdicts = run.execute()
    gate.test_verdicts(verdicts, run.work.episodes, run.expected_verdicts())
    run.score(verdicts)
    gate.scores(run.work.episodes)
