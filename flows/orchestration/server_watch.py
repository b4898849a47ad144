"""Starts a Prefect server again that ended under a command: a night must not depend on a server that only shows it."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from schemas.errors import ServerUnavailable

CHECK_S = 0.5
MOST_STARTS = 5
"""Starts in one command. A server that keeps ending has a reason, which its log tells."""
_LOG = logging.getLogger("parley.prefect")


@contextmanager
def kept_up(is_missed: Callable[[], bool], start_again: Callable[[], None], answered: threading.Event) -> Iterator[None]:
    """Watch a server for the time of the block, from its first answer on.

    Args:
        is_missed: whether it ended without being asked to.
        start_again: starts it; returns before it answers.
        answered: set once it answered. Before that, whoever waits for the server learns of its end.
    """
    over = threading.Event()

    def watch() -> None:
        starts = 0
        while starts < MOST_STARTS and not over.wait(CHECK_S):
            if answered.is_set() and is_missed():
                starts += 1
                try:
                    start_again()
                except (OSError, ServerUnavailable) as error:
                    _LOG.warning("the Prefect server ended and could not be started again: %s", error)

    thread = threading.Thread(target=watch, name="parley-prefect-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
