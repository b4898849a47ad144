"""Record of a home's Prefect server (`server.json`), and its restart after a crash.

A server that crashes during a command is restarted. A night must not fail because of the server,
which only displays the night's progress.
"""

import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from flows.orchestration.processes import is_alive
from flows.orchestration.settings import LOOPBACK
from schemas.errors import ServerUnavailable
from tasks.driver.signals import repeating

Owner = Literal["command", "server start"]


@dataclass(frozen=True, slots=True)
class Record:
    """Prefect server that Parley started.

    `mark` distinguishes its process from a later process with the same pid.
    """

    pid: int
    mark: str
    port: int
    owner: Owner
    host: str = field(default_factory=socket.gethostname)

    @property
    def root(self) -> str:
        """Return the base URL of the server, without `/api`."""
        return f"http://{LOOPBACK}:{self.port}"

    def lives(self) -> bool:
        """Return True if the server's process is running on this host."""
        return self.host == socket.gethostname() and is_alive(self.pid, self.mark)


def read_record(folder: Path) -> Record | None:
    """Return the record in a server's folder, or None if it is missing or unreadable."""
    try:
        return Record(**json.loads((folder / "server.json").read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def write_record(folder: Path, record: Record) -> None:
    """Write the record of a started server."""
    part = folder / "server.json.part"
    part.write_text(json.dumps(asdict(record)), encoding="utf-8")
    os.replace(part, folder / "server.json")


def forget(folder: Path) -> None:
    """Remove the record, so that the server counts as stopped and is not restarted."""
    with suppress(FileNotFoundError):
        (folder / "server.json").unlink()


CHECK_S = 0.5
MOST_STARTS = 5
"""Maximum number of restarts during one command. The server's log shows why it crashes."""
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
