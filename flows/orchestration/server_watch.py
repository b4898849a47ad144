"""Starts a Prefect server again that ended under a command: a night must not depend on a server that only shows it."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from schemas.errors import ServerUnavailable
from tasks.driver.repeating import repeating

CHECK_S = 0.5
MOST_STARTS = 5
"""Starts in one command. A server that keeps ending has a reason, which its log tells."""
_LOG = logging.getLogger("parley.prefect")


@contextmanager
def kept_up(
    is_missed: Callable[[], bool], start_again: Callable[[], None], answered: threading.Event
) -> Iterator[None]:
    """Watch a server for the time of the block, from its first answer on.

    Args:
        is_missed: whether it ended without being asked to.
        start_again: starts it; returns before it answers.
        answered: set once it answered. Before that, whoever waits for the server learns of its end.
    """
    starts = 0

    def watch() -> bool:
        nonlocal starts
        if answered.is_set() and is_missed():
            starts += 1
            try:
                start_again()
            except (OSError, ServerUnavailable) as error:
                _LOG.warning("the Prefect server ended and could not be started again: %s", error)
        return starts < MOST_STARTS

    with repeating(watch, CHECK_S, "parley-prefect-watch"):
        yield
