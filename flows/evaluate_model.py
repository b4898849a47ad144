"""Flow that evaluates one model on one setting of one benchmark, from raw rows to scores."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import cast

from prefect import flow
from prefect.states import Completed

from flows.night.preflight.served_models import require_same_models
from flows.night.reporting.run_record import (
    Work,
    begin_run,
    cut_run,
    fail_run,
    finish_run,
    leave_run,
    remove_leftovers,
)
from flows.night.runtime import Night, night
from flows.night.stages import Stages
from schemas.errors import BudgetSpent, DiskFull, ParleyError
from schemas.lake.records import utc_now
from schemas.outside.display import plain_line
from tasks.check_quality import QualityGate, StoppedByCheck
from tasks.driver.signals import heed_signals
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.report import RunReport, finished_report, keep_comparison_rule
from tasks.planning.request import EvaluationRequest
from tasks.storage.home import find_home


@flow(name="evaluate_model", flow_run_name="{request.title}", validate_parameters=False)
def evaluate_model(request: EvaluationRequest, home: str | None = None) -> RunReport:
    """Evaluate a model on a setting, and return the run's report. Finished work is not repeated.

    Raises:
        ParleyError: The run could not start, or was stopped. Finished work is stored.
    """
    with night(find_home(home), request.workers) as tonight:
        plan = tonight.plan(request)
        plan.look_again()
        if plan.is_finished():
            return _finished(plan)
        with ExitStack() as held:
            try:
                held.enter_context(
                    plan.home.awaited_run_lock(plan.run_id, _wait_callback(tonight, request.title))
                )
            except BudgetSpent as spent:
                return _as_state(leave_run(plan, tonight.night_id, str(spent)))
            if plan.is_finished():  # Another process has finished it meanwhile.
                return _finished(plan)
            with tonight.board.following(plan.run_id), tonight.using_servers(plan):
                return _as_state(_evaluate(tonight, plan))


def _finished(plan: RunPlan) -> RunReport:
    require_same_models(plan)
    keep_comparison_rule(plan)
    return finished_report(plan)


def _wait_callback(tonight: Night, title: str) -> Callable[[], None]:
    """Return a callback to call repeatedly while another process works on the run.

    The callback raises an exception if a signal arrives or a budget cap is reached.
    """
    shown: list[str] = []

    def wait() -> None:
        if not shown:
            shown.append(title)
            tonight.board.stage(title, "wait for another process that runs it")
        heed_signals()
        tonight.heed_caps()

    return wait


def _evaluate(tonight: Night, plan: RunPlan) -> RunReport:
    over = tonight.why_over()
    if over:
        return leave_run(plan, tonight.night_id, over)
    begun, work = utc_now(), None
    try:
        plan.require_baseline()
        tonight.preflight(plan)
        keep_comparison_rule(plan)
        remove_leftovers(plan)
        work = begin_run(plan, tonight.night_id, begun)
        return _run_stages(tonight, plan, begun, work)
    except DiskFull:
        raise  # The failure could not be written either.
    except ParleyError as error:
        fail_run(plan, tonight.night_id, begun, work, str(error))
        raise


def _run_stages(tonight: Night, plan: RunPlan, begun: str, work: Work) -> RunReport:
    gate = QualityGate(plan, plan.request.title, tonight.check_table)
    try:
        _stages(Stages(tonight, plan, work), gate)
    except StoppedByCheck:
        work.is_whole = False
    except BudgetSpent as spent:
        return cut_run(plan, tonight.night_id, begun, work, str(spent), tonight.spent_by(plan))
    tonight.board.stage(plan.request.title, "keep")
    return finish_run(plan, tonight.night_id, begun, work, gate.finish())


def _as_state(report: RunReport) -> RunReport:
    """Return the report in the form that the flow returns to Prefect.

    Prefect's UI shows a withheld or incomplete run as a state of that name, with the reason.
    """
    if report.status not in ("withheld", "incomplete"):
        return report
    return cast(
        "RunReport",
        Completed(
            name=report.status.capitalize(),
            message=plain_line(str(report.reason), 1000),
            data=report,
        ),
    )


def _stages(run: Stages, gate: QualityGate) -> None:
    run.stage()
    gate.dialogs()
    gate.problems()
    run.play()
    gate.episodes()
    run.read_episodes()
    verdicts = run.execute()
    gate.test_verdicts(verdicts, run.work.episodes, run.expected_verdicts())
    verdicts = run.audit(verdicts)
    gate.forgery_audit(run.work.audited.rows, run.work.to_audit)
    judged = run.judge(verdicts)
    gate.judgements(judged, run.work.episodes, run.expected_judgements())
    run.score(verdicts, judged, run.embed(verdicts, judged))
    gate.scores(run.work.episodes)
    run.decide()
