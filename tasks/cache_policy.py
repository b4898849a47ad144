"""Options of all Prefect tasks: no cache, and retries after failures that may pass.

The lake and the journal record what is done, and every task checks them first. Prefect's cache
could only repeat that, or contradict it after files were removed, because a cache hit does not
check that the files exist. See decision 0006.
"""

from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.errors import InfraError, ParleyError
from tasks.driver.stage import ItemT, OnResult, ResultT, ShardT, Stage, run_stage

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


def run_stage_task(
    stage: Stage[ItemT, ShardT, ResultT], title: str, on_result: OnResult = lambda _: None
) -> ResultT:
    """Run a stage as a Prefect task, which is named after the stage and the run.

    Args:
        stage: Stage to run.
        title: Title of the run.
        on_result: Called with the result of each shard.
    """

    @task(name=stage.name, task_run_name=lambda: f"{stage.name} {title}", **OPTIONS)
    def run() -> ResultT:
        return run_stage(stage, on_result)

    return run()
