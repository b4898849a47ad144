"""Parley's Prefect flows: their numbers and parameters, cancellation, suspension.

If a night is cancelled, its inner flows and tasks are cancelled, too. Without this module, Prefect
would mark the tasks as crashed or leave them running.

A deployed night is suspended at once. Without this module, Prefect would react to Suspend only
between two tasks, and a task can take hours.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast
from uuid import UUID

from prefect import Flow
from pydantic_core import to_jsonable_python

from schemas.outside.display import plain_line
from tasks.driver.signals import repeating, stop, terminated_in_time

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import State
    from prefect.context import FlowRunContext

P = ParamSpec("P")
R = TypeVar("R")
CANCELLED_MESSAGE = "Cancelled together with its night."


class _PlainFlow(Flow[P, R]):
    def serialize_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        return {name: _as_json(value) for name, value in parameters.items()}


def _as_json(value: object) -> Any:
    """Return a value as JSON. If that is impossible, return its type, as Prefect does."""
    try:
        return to_jsonable_python(value)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"


def plain_flow(**options: Any) -> Callable[[Callable[P, R]], Flow[P, R]]:
    """Return a decorator like Prefect's `flow`, with its options. Parameters are not validated.

    Prefect encodes a flow's parameters with FastAPI, whose import takes 0.1 s of CPU time. Flows of
    this decorator encode them with Pydantic.
    """
    return lambda function: _PlainFlow(function, validate_parameters=False, **options)


def cancel_what_it_began(flow: Any, flow_run: Any, state: Any) -> None:
    """Cancel the running tasks and inner flows of a cancelled flow run. Prefect calls this hook.

    Args:
        flow: the flow. Prefect defines the hook's arguments.
        flow_run: the flow run. Tasks that crashed before its cancellation stay crashed.
        state: the state that triggered the hook.
    """
    began = (
        flow_run.state.timestamp
        if flow_run.state and flow_run.state.is_cancelling()
        else state.timestamp
    )
    cancel_below(flow_run.id, began, "Cancelled", CANCELLED_MESSAGE)


def cancel_below(flow_run_id: UUID, began: datetime, name: str, message: str) -> None:
    """Cancel the running tasks and inner flows of a flow run.

    Args:
        flow_run_id: the flow run.
        began: time when the cancellation began. Tasks that crashed earlier stay crashed.
        name: name of the new state, which the UI shows.
        message: reason, which the UI shows.
    """
    from prefect.client.orchestration import SyncPrefectClient, get_client
    from prefect.states import Cancelled

    with get_client(sync_client=True) as client:
        assert isinstance(client, SyncPrefectClient)
        _cancel_below(client, flow_run_id, began, Cancelled(name=name, message=message))


def _cancel_below(
    client: "SyncPrefectClient", flow_run_id: UUID, began: datetime, cancelled: "State"
) -> None:
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterId,
        FlowRunFilterParentFlowRunId,
    )

    inside = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[flow_run_id]))
    for inner in client.read_flow_runs(flow_run_filter=inside):
        if _was_running(inner.state, began):
            client.set_flow_run_state(inner.id, cancelled, force=True)
        _cancel_below(client, inner.id, began, cancelled)
    for task_run in client.read_task_runs(
        flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[flow_run_id]))
    ):
        if _was_running(task_run.state, began):
            client.set_task_run_state(task_run.id, cancelled, force=True)


def _was_running(state: "State | None", began: datetime) -> bool:
    return (
        state is None or not state.is_final() or (state.is_crashed() and state.timestamp >= began)
    )


PAUSED_MESSAGE = (
    "Suspended together with its night. Resume restarts it, and finished work is reused."
)
_CHECK_EVERY_S = 0.2


@contextmanager
def pausable() -> Iterator[None]:
    """End a deployed night with its inner flows if a user suspends it within the block.

    Raises:
        Pause: the night was suspended. Prefect expects this exception.
    """
    from prefect.context import FlowRunContext
    from prefect.exceptions import Pause
    from prefect.runtime import deployment

    night = FlowRunContext.get() if deployment.id else None
    if night is None or night.flow_run is None:
        yield
        return
    with terminated_in_time():
        try:
            with _stop_on_suspend(night):
                yield
        except Pause as pause:
            if pause.state is not None:
                cancel_below(night.flow_run.id, pause.state.timestamp, "Suspended", PAUSED_MESSAGE)
            raise


@contextmanager
def _stop_on_suspend(night: "FlowRunContext") -> Iterator[None]:
    """Stop the process when Prefect's client learns that the night is suspended."""
    from prefect.exceptions import Pause

    request = night.flow_run_suspension_request

    def check() -> bool:
        if not request.is_requested():
            return True
        stop(lambda: Pause(state=request.get_state()))
        return False

    with repeating(check, _CHECK_EVERY_S, "parley-pause"):
        yield


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


def completed_as(name: str, reason: str, result: R) -> R:
    """Return the result of a flow as a completed state, which Prefect's UI shows by its name.

    Prefect gives the caller of the flow the result alone.

    Args:
        name: name of the state.
        reason: reason for the name, which the UI shows as well.
        result: result of the flow.
    """
    from prefect.states import Completed

    return cast(R, Completed(name=name, message=plain_line(reason, 1000), data=result))
