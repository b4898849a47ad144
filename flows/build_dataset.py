"""Flow: a dataset, made by model calls and programs."""

from prefect import flow

from flows.night.preflight.checks import preflight_build
from flows.night.reporting.progress import Board
from flows.night.runtime import night
from flows.orchestration.task_arguments import unlooked
from schemas.night.budget import Budget
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.build import construct
from tasks.driver.kept_calls import KeptCalls
from tasks.planning.builds.build_plan import BuildPlan, plan_build
from tasks.planning.builds.build_report import BuildReport, report_of
from tasks.planning.builds.built_folder import require_place, write_built
from tasks.planning.request import BuildRequest
from tasks.storage.home import find_home
from tasks.storage.reviewed import note_reviewed

STAGE = "construct"


@flow(name="build_dataset", flow_run_name="build {request.what}", validate_parameters=False)
def build_dataset(
    request: BuildRequest, home: str | None = None, budget: Budget | None = None
) -> BuildReport:
    """Make the files; asks for nothing that is kept.

    Args:
        budget: caps on tokens and hours.

    Raises:
        BudgetSpent: a cap is met. All answers are kept.
        ParleyError: it could not be begun, or was stopped. All answers are kept.
    """
    with night(find_home(home), 1) as tonight:
        tonight.set_budget(budget)
        plan = plan_build(request, tonight.home)
        purse = tonight.spending.build_purse(plan.build_id) if tonight.spending else None
        with plan.home.build_lock(plan.build_id):
            require_place(plan)
            plan.note_begun()
            kept = _kept(plan, tonight.board)

            def find_served() -> dict[ModelIdentity, ModelEndpoint]:
                preflight_build(plan)
                return dict(tonight.servers.reach(plan))

            made = construct(
                plan,
                unlooked(kept),
                request.what,
                find_served,
                lambda: tonight.embedder(plan),
                purse,
            )
            tonight.board.stage(request.what, "write")
            files = write_built(plan, made)
            note_reviewed(
                plan.folder, plan.benchmark.name, made.review.ids, made.review.rubric_scales
            )
            plan.note_finished()
            return report_of(plan, made, files, kept)


def _kept(plan: BuildPlan, board: Board) -> KeptCalls:
    """What the build was told before; from now on each new answer shows on the board."""
    board.stage(plan.request.what, STAGE, sum(plan.estimate.values()), unit="calls")
    return KeptCalls(
        plan.folder,
        lambda **amounts: board.report({"stage": STAGE, "faults": 0, "turns": 0, **amounts}),
    )
