"""Inner flows that begin side by side, in any order: each has the number of its place in the night."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def numbered(flow: Any, number: int) -> Iterator[None]:
    """Let a run of `flow` within the block be its parent's inner flow of that number, from 0, whenever it begins.

    Prefect counts them as they begin. A night that is retried would find an earlier inner run of another request in its place.
    """
    from prefect import Task
    from prefect.context import FlowRunContext

    parent = FlowRunContext.get()
    if parent is None:
        yield
        return
    counted = Task(name=flow.name, fn=flow.fn, version=flow.version).task_key
    keys: dict[str, int | str] = {counted: number - 1} if number else {}
    with parent.model_copy(update={"task_run_dynamic_keys": keys}):
        yield
