"""Prefect task: write a dataset's rows to the lake."""

from prefect import task

from tasks.cache_policy import OPTIONS
from tasks.planning.dataset import write_staged
from tasks.planning.plan import RunPlan


@task(name="stage", task_run_name="stage {title}", **OPTIONS)
def stage(plan: RunPlan, title: str) -> str:
    """Write the plan's dialogs, problems and quarantined rows. Return the dataset's digest."""
    return write_staged(plan.staged, plan.spec.benchmark, plan.spec.dataset_version, plan.lake)
