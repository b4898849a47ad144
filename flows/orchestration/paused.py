"""Has a deployed night heed Suspend (in Prefect's UI) soon: Prefect itself looks only between two tasks, which may take hours."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flows.orchestration.cancelled import cancel_below
from tasks.driver.repeating import repeating
from tasks.driver.signals import stop, terminated_in_time

if TYPE_CHECKING:
    from prefect.context import FlowRunContext

MESSAGE = "Suspended together with its night. Resume begins it anew, and it goes on where it stood."
_LOOK_EVERY_S = 0.2


@contextmanager
def pausable() -> Iterator[None]:
    """Within the block a deployed night that is suspended ends as a cancelled one does, with all that it began.

    Raises:
        Pause: it was suspended; Prefect wants to know it thus.
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
            with _looking(night):
                yield
        except Pause as pause:
            if pause.state is not None:
                cancel_below(night.flow_run.id, pause.state.timestamp, "Suspended", MESSAGE)
            raise


@contextmanager
def _looking(night: "FlowRunContext") -> Iterator[None]:
    """Stop the process once Prefect has heard from its server that the night is suspended."""
    from prefect.exceptions import Pause

    request = night.flow_run_suspension_request

    def look() -> bool:
        if not request.is_requested():
            return True
        stop(lambda: Pause(state=request.get_state()))
        return False

    with repeating(look, _LOOK_EVERY_S, "parley-pause"):
        yield
