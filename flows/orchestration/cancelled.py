"""Cancels the inner flows and tasks of a cancelled night: Prefect would call such a task crashed, or leave it running."""

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import State

MESSAGE = "Cancelled together with its night."


def cancel_what_it_began(flow: Any, flow_run: Any, state: Any) -> None:
    """Hook of a flow whose run was cancelled: cancels the tasks and inner flows that were under way.

    Args:
        flow: the flow; Prefect names its arguments.
        flow_run: its run. Where its state says that it is being cancelled, what crashed earlier stays crashed.
        state: the state that called the hook.
    """
    began = (
        flow_run.state.timestamp
        if flow_run.state and flow_run.state.is_cancelling()
        else state.timestamp
    )
    cancel_below(flow_run.id, began, "Cancelled", MESSAGE)


def cancel_below(flow_run_id: UUID, began: datetime, name: str, message: str) -> None:
    """Cancel the tasks and inner flows of a run that were under way.

    Args:
        flow_run_id: the run.
        began: when its end began. A run that crashed earlier stays crashed.
        name: of their state, which the UI shows.
        message: why.
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
        if _was_under_way(inner.state, began):
            client.set_flow_run_state(inner.id, cancelled, force=True)
        _cancel_below(client, inner.id, began, cancelled)
    for task_run in client.read_task_runs(
        flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[flow_run_id]))
    ):
        if _was_under_way(task_run.state, began):
            client.set_task_run_state(task_run.id, cancelled, force=True)


def _was_under_way(state: "State | None", began: datetime) -> bool:
    return (
        state is None or not state.is_final() or (state.is_crashed() and state.timestamp >= began)
    )
