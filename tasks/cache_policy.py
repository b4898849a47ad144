"""The one Prefect cache policy: what goes into a task, and the version of what it does. Nothing else changes a result.

Prefect's own default also holds the flow run's id, which is new each night, and its task-source policy sees only the wrapper. The
store and the journal stay the truth; this only saves a stage's look at them. Give tasks values that JSON can hold (strings,
numbers, tuples; paths as strings): a set has another order, and so another key, in each process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prefect.cache_policies import CachePolicy


def inputs_and_versions(*versions: str | int) -> CachePolicy:
    """A key made of the task's name, its inputs, and what its code and formats are versioned by."""
    from prefect.cache_policies import INPUTS, CacheKeyFnPolicy

    stamp = "/".join(map(str, versions))
    return INPUTS + CacheKeyFnPolicy(cache_key_fn=lambda context, inputs: f"{context.task.name}/{stamp}")
