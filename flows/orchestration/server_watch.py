"""Restarts of a Prefect server that crashes during a command.

A night must not fail because of the server, which only displays its progress.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from schemas.errors import ServerUnavailable
from tasks.driver.repeating import repeating

CHECK_S = 0.5
MOST_STARTS = 5
"""Maximum number of restarts in one command. The server's log shows why it crashes again and again.
"""
_LOG = logging.getLogger("parley.prefect")


@contextmanager
def restart_on_exit(
    has_crashed: Callable[[], bool], start_again: Callable[[], None], answered: threading.Event
) -> Iterator[None]:
    """Restart a server within the block if it crashes after its first answer.

    Args:
        has_crashed: function that returns True if the server has crashed.
        start_again: function that starts the server, and returns before it answers.
        answered: event that is set at the server's first answer. `wait_ready` reports an earlier
            crash.
    """
    starts = 0

    def watch() -> bool:
        nonlocal starts
        if answered.is_set() and has_crashed():
            starts += 1
            try:
                start_again()
            except (OSError, ServerUnavailable) as error:
                _LOG.warning("the Prefect server crashed and could not be restarted: %s", error)
        return starts < MOST_STARTS

    with repeating(watch, CHECK_S, "parley-prefect-watch"):
        yield
