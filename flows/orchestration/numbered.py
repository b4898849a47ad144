"""Stable numbers for inner flows that start concurrently, in any order."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def numbered(flow: Any, number: int) -> Iterator[None]:
    """Give a run of `flow` within the block a fixed number among its parent's inner flows.

    Without this, Prefect numbers inner flows in the order in which they start, and a retried night
    could reuse the inner run of another request.

    Args:
        flow: the inner flow.
        number: 0-based number of the inner flow.
    """
    from prefect import Task
    from prefect.context import FlowRunContext

    parent = FlowRunContext.get()
    if parent is None:
        yield
        return
    key = Task(name=flow.name, fn=flow.fn, version=flow.version).task_key
    keys: dict[str, int | str] = {key: number - 1} if number else {}
    with parent.model_copy(update={"task_run_dynamic_keys": keys}):
        yield
