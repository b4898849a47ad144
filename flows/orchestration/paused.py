"""Immediate suspension of a deployed night.

Prefect reacts to Suspend only between two tasks, and a task can take hours.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flows.orchestration.cancelled import cancel_below
from tasks.driver.repeating import repeating
from tasks.driver.signals import stop, terminated_in_time

if TYPE_CHECKING:
    from prefect.context import FlowRunContext

MESSAGE = "Suspended together with its night. Resume restarts it, and finished work is reused."
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
                cancel_below(night.flow_run.id, pause.state.timestamp, "Suspended", MESSAGE)
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
