"""Cancellation of a night's inner flows and tasks.

Without this module, Prefect would mark such tasks as crashed or leave them running.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import State

MESSAGE = "Cancelled together with its night."


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
    cancel_below(flow_run.id, began, "Cancelled", MESSAGE)


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
