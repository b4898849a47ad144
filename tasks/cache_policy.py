"""How Prefect treats our tasks: the one cache policy, and the failures that are worth another try.

The lake and the journal say what is done, and every task asks them first. Prefect's own cache could only repeat their answer, or
contradict it after files were removed, since a hit does not look for them. So it is off. See decision 0006.
"""

from typing import Any

from prefect.cache_policies import NO_CACHE

from schemas.errors import InfraError, ParleyError

THE_STORE_DECIDES = NO_CACHE
RETRIES = 2
RETRY_DELAY_S = 5


def is_worth_retrying(task: Any, task_run: Any, state: Any) -> bool:
    """Whether a failed task may succeed when run again: faults of machine or service, not wrong requests or failed checks."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, InfraError) or not isinstance(error, ParleyError)


OPTIONS: dict[str, Any] = {
    "cache_policy": THE_STORE_DECIDES,
    "retries": RETRIES,
    "retry_delay_seconds": RETRY_DELAY_S,
    "retry_condition_fn": is_worth_retrying,
}
"""Options of every task of ours."""
