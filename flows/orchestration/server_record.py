"""Record of a home's Prefect server, in the file `server.json`, which is replaced atomically."""

import json
import os
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from flows.orchestration.processes import is_alive
from flows.orchestration.settings import LOOPBACK

Owner = Literal["command", "server start"]


@dataclass(frozen=True, slots=True)
class Record:
    """Started server.

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
