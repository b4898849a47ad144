"""Prefect tasks: they have no cache, and retry failures that may pass.

The lake and the journal record what is done, and every task checks them first. Prefect's cache
could only repeat that, or contradict it after files were removed, because a cache hit does not
check that the files exist. See decision 0006.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.errors import InfraError, ParleyError
from tasks.stage import ItemT, OnResult, ResultT, ShardT, Stage, run_stage

T = TypeVar("T")
THE_STORE_DECIDES = NO_CACHE
RETRIES = 2
RETRY_DELAY_S = 5


def is_worth_retrying(task: Any, task_run: Any, state: Any) -> bool:
    """Return True if a failed task may succeed when run again.

    Faults of machine or service may pass. Wrong requests and failed checks do not.
    """
    error = state.result(raise_on_failure=False)
    return isinstance(error, InfraError) or not isinstance(error, ParleyError)


OPTIONS: dict[str, Any] = {
    "cache_policy": THE_STORE_DECIDES,
    "retries": RETRIES,
    "retry_delay_seconds": RETRY_DELAY_S,
    "retry_condition_fn": is_worth_retrying,
}
"""Arguments of `@task` for every Prefect task."""


def run_task(
    name: str, title: str, work: Callable[[], T], *, action: str = "", retries: int = RETRIES
) -> T:
    """Run a function as a Prefect task, and return its result.

    The function is a closure: Prefect searches the arguments of a task for states of other tasks,
    which takes longer than most tasks.

    Args:
        name: Name of the task.
        title: Title of the run, which the name of the task's run contains.
        work: Function to run.
        action: Start of the name of the task's run. Default: the task's name.
        retries: Number of retries after failures that may pass.
    """

    @task(
        name=name,
        task_run_name=lambda: f"{action or name} {title}".strip(),
        **{**OPTIONS, "retries": retries},
    )
    def run() -> T:
        return work()

    return run()


def run_stage_task(
    stage: Stage[ItemT, ShardT, ResultT], title: str, on_result: OnResult = lambda _: None
) -> ResultT:
    """Run a stage as a Prefect task, which is named after the stage and the run.

    Args:
        stage: Stage to run.
        title: Title of the run.
        on_result: Called with the result of each shard.
    """
    return run_task(stage.name, title, lambda: run_stage(stage, on_result))
