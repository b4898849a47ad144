"""Flow that builds a dataset with model calls and programs."""

from flows.night.preflight.checks import preflight_build
from flows.night.reporting.progress import Board
from flows.night.session import Session
from flows.orchestration.inner_flows import plain_flow
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.build import construct
from tasks.driver.stored_calls import StoredCalls
from tasks.planning.builds.build_plan import BuildPlan
from tasks.planning.builds.built_folder import BuildReport, report_of, require_place, write_built
from tasks.planning.request import BuildRequest
from tasks.stage import run_task
from tasks.storage.home_records import note_reviewed

STAGE = "construct"


def build_dataset(session: Session, plan: BuildPlan) -> BuildReport:
    """Build a dataset's files in a flow run. Stored answers are not requested again.

    The flow is a closure: Prefect stores parameters as JSON, which a session cannot become.

    Raises:
        BudgetSpent: A cap is reached. All answers are stored.
        ParleyError: The build could not start, or was stopped. All answers are stored.
    """

    @plain_flow(name="build_dataset", flow_run_name="build {request.what}")
    def build(request: BuildRequest) -> BuildReport:
        with plan.home.build_lock(plan.build_id):
            return _build(session, plan, request.what)

    return build(plan.request)


def _build(session: Session, plan: BuildPlan, title: str) -> BuildReport:
    require_place(plan)
    plan.note_begun()
    stored_calls = _stored_calls(plan, session.board)

    def find_served() -> dict[ModelIdentity, ModelEndpoint]:
        preflight_build(plan)
        return dict(session.servers.reach(plan))

    spending = session.spending
    # No retries: the models have already waited for endpoints that did not answer.
    built = run_task(
        "construct",
        title,
        lambda: construct(
            plan,
            stored_calls,
            find_served,
            lambda: session.embedder(plan),
            spending.build_budget_meter(plan.build_id) if spending else None,
        ),
        retries=0,
    )
    session.board.stage(title, "write")
    files = write_built(plan, built)
    note_reviewed(plan.folder, plan.benchmark.name, built.review.ids, built.review.rubric_scales)
    plan.note_finished()
    return report_of(plan, built, files, stored_calls)


def _stored_calls(plan: BuildPlan, board: Board) -> StoredCalls:
    """Return the build's stored answers. Each new answer updates the progress display."""
    board.stage(plan.request.what, STAGE, sum(plan.estimate.values()), unit="calls")
    return StoredCalls(
        plan.folder,
        lambda **amounts: board.report({"stage": STAGE, "faults": 0, "turns": 0, **amounts}),
    )
