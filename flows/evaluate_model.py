"""Flow that evaluates one model on one setting of one benchmark, from raw rows to scores."""

from collections.abc import Callable
from contextlib import ExitStack, suppress

from flows.night.preflight.served_models import require_same_models
from flows.night.reporting.run_record import Work, begin_run, close_run, find_work, remove_leftovers
from flows.night.run_queue import QueuedRun, only_run
from flows.night.session import Session
from flows.night.stages import Stages
from flows.orchestration.inner_flows import completed_as, numbered, plain_flow
from schemas.errors import BudgetSpent, DiskFull, ParleyError
from schemas.lake.records import utc_now
from tasks.check_quality import QualityGate, StoppedByCheck
from tasks.driver.signals import heed_signals
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.report import RunReport, finished_report, keep_comparison_rule
from tasks.planning.request import EvaluationRequest


def evaluate_model(
    session: Session, request: EvaluationRequest, run: QueuedRun | None = None, number: int = 0
) -> RunReport:
    """Evaluate a model on a setting in a flow run of its own, and return the run's report.

    Finished work is not repeated. The flow is a closure: Prefect stores parameters as JSON, which a
    session cannot become.

    Args:
        session: The invocation.
        request: What to evaluate.
        run: Place among the parallel runs of a night. None if there are none.
        number: 0-based number of the flow run among those of its night.

    Raises:
        ParleyError: The run could not start, or was stopped. Finished work is stored.
    """

    @plain_flow(name="evaluate_model", flow_run_name="{request.title}")
    def evaluate(request: EvaluationRequest) -> RunReport:
        report = _locked(session, session.plan(request), run or only_run())
        if report.status in ("withheld", "incomplete"):
            return completed_as(report.status.capitalize(), str(report.reason), report)
        return report

    with numbered(evaluate, number):
        return evaluate(request)


def _locked(session: Session, plan: RunPlan, run: QueuedRun) -> RunReport:
    """Evaluate unless the run is finished, while no other process works on the run."""
    plan.look_again()
    if plan.is_finished():
        return _finished(plan)
    with ExitStack() as held:
        wait = _wait_callback(session, plan.request.title)
        try:
            held.enter_context(plan.home.awaited_run_lock(plan.run_id, wait))
        except BudgetSpent as spent:
            return _not_begun(session, plan, str(spent))
        if plan.is_finished():  # Another process has finished it meanwhile.
            return _finished(plan)
        with session.board.following(plan.run_id), session.using_servers(plan):
            return _evaluate(session, plan, run)


def _finished(plan: RunPlan) -> RunReport:
    require_same_models(plan)
    keep_comparison_rule(plan)
    return finished_report(plan)


def _not_begun(session: Session, plan: RunPlan, reason: str) -> RunReport:
    return close_run(plan, find_work(plan, session.night_id, utc_now()), "incomplete", reason)


def _wait_callback(session: Session, title: str) -> Callable[[], None]:
    """Return a callback to call repeatedly while another process works on the run.

    The callback raises an exception if a signal arrives or a budget cap is reached.
    """
    shown: list[str] = []

    def wait() -> None:
        if not shown:
            shown.append(title)
            session.board.stage(title, "wait for another process that runs it")
        heed_signals()
        session.heed_caps()

    return wait


def _evaluate(session: Session, plan: RunPlan, run: QueuedRun) -> RunReport:
    if over := session.why_over():
        return _not_begun(session, plan, over)
    started_at, work = utc_now(), None
    try:
        plan.require_baseline()
        session.preflight(plan)
        keep_comparison_rule(plan)
        remove_leftovers(plan)
        work = begin_run(plan, session.night_id, started_at)
        return _run_stages(session, plan, work, run)
    except DiskFull:
        raise  # The failure could not be written either.
    except ParleyError as error:
        with suppress(ParleyError):  # The first error matters more than one of the lake.
            if work is None:
                _not_begun(session, plan, str(error))
            else:
                close_run(plan, work, "failed", str(error))
        raise


def _run_stages(session: Session, plan: RunPlan, work: Work, run: QueuedRun) -> RunReport:
    gate = QualityGate(plan, plan.request.title, session.check_table)
    try:
        with gate:
            _stages(Stages(session, plan, work, run), gate)
    except StoppedByCheck:
        work.is_whole = False
    except BudgetSpent as spent:
        work.spent = session.spent_by(plan)
        return close_run(plan, work, "incomplete", str(spent))
    session.board.stage(plan.request.title, "keep")
    work.checked = gate.finish()
    return close_run(plan, work, "finished")


def _stages(run: Stages, gate: QualityGate) -> None:
    """Run all stages. Tables are checked beside local stages, and before models are asked."""
    run.stage()
    gate.dialogs()
    gate.problems()
    gate.require()
    run.play()
    gate.episodes()
    run.read_episodes()
    verdicts = run.execute()
    gate.test_verdicts(verdicts, run.work.episodes, run.expected_verdicts())
    verdicts = run.audit(verdicts)
    gate.forgery_audit(run.work.audited.rows, run.work.to_audit)
    gate.require()
    judged = run.judge(verdicts)
    gate.judgements(judged, run.work.episodes, run.expected_judgements())
    gate.require()
    run.score(verdicts, judged, run.embed(verdicts, judged))
    gate.scores(run.work.episodes)
    gate.require()
    run.decide()
