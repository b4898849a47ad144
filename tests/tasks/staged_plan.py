"""Rows of a plan in the lake, as the stage `stage` writes them."""

from tasks.planning.dataset import write_staged
from tasks.planning.plan import RunPlan


def stage(plan: RunPlan) -> str:
    """Write the plan's dialogs and problems to the lake, and return the dataset's digest."""
    return write_staged(plan.staged, plan.spec.benchmark, plan.spec.dataset_version, plan.lake)
