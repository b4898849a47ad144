"""Prefect task: a dataset's rows into the lake."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.planning.plan import RunPlan, write_staged


@task(name="stage", task_run_name="stage {title}", cache_policy=NO_CACHE, retries=2, retry_delay_seconds=2)
def stage(plan: RunPlan, title: str) -> str:
    """Write the plan's dialogs, problems and quarantined rows; returns the dataset's digest."""
    return write_staged(plan.staged, plan.spec.benchmark, plan.spec.dataset_version, plan.lake)
