"""Flow that builds a dataset with model calls and programs."""

from prefect import flow

from flows.night.preflight.checks import preflight_build
from flows.night.reporting.progress import Board
from flows.night.runtime import night
from flows.orchestration.inner_flows import unlooked
from schemas.night.budget import Budget
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.build import construct
from tasks.driver.stored_calls import StoredCalls
from tasks.planning.builds.build_plan import BuildPlan, plan_build
from tasks.planning.builds.build_report import BuildReport, report_of
from tasks.planning.builds.built_folder import require_place, write_built
from tasks.planning.request import BuildRequest
from tasks.storage.home import find_home
from tasks.storage.home_records import note_reviewed

STAGE = "construct"


@flow(name="build_dataset", flow_run_name="build {request.what}", validate_parameters=False)
def build_dataset(
    request: BuildRequest, home: str | None = None, budget: Budget | None = None
) -> BuildReport:
    """Build a dataset's files. Stored answers are not requested again.

    Args:
        request: The build.
        home: Folder of all data. `$PARLEY_HOME` takes precedence.
        budget: Caps on tokens and hours.

    Raises:
        BudgetSpent: A cap is reached. All answers are stored.
        ParleyError: The build could not start, or was stopped. All answers are stored.
    """
    with night(find_home(home), 1) as tonight:
        tonight.set_budget(budget)
        plan = plan_build(request, tonight.home)
        budget_meter = (
            tonight.spending.build_budget_meter(plan.build_id) if tonight.spending else None
        )
        with plan.home.build_lock(plan.build_id):
            require_place(plan)
            plan.note_begun()
            stored_calls = _stored_calls(plan, tonight.board)

            def find_served() -> dict[ModelIdentity, ModelEndpoint]:
                preflight_build(plan)
                return dict(tonight.servers.reach(plan))

            built = construct(
                plan,
                unlooked(stored_calls),
                request.what,
                find_served,
                lambda: tonight.embedder(plan),
                budget_meter,
            )
            tonight.board.stage(request.what, "write")
            files = write_built(plan, built)
            note_reviewed(
                plan.folder, plan.benchmark.name, built.review.ids, built.review.rubric_scales
            )
            plan.note_finished()
            return report_of(plan, built, files, stored_calls)


def _stored_calls(plan: BuildPlan, board: Board) -> StoredCalls:
    """Return the build's stored answers. Each new answer updates the progress display."""
    board.stage(plan.request.what, STAGE, sum(plan.estimate.values()), unit="calls")
    return StoredCalls(
        plan.folder,
        lambda **amounts: board.report({"stage": STAGE, "faults": 0, "turns": 0, **amounts}),
    )
