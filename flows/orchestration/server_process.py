"""The Prefect server's own process, started by path (`python -P`): it imports nothing else of Parley.

It lives as long as some process holds a shared lock on the users file. The kernel drops a lock with its holder. So the server
ends within about a second of its last command, even after SIGKILL, and no command depends on the one that started it. (A parent
death signal would not do: it is bound to the thread that forked, and would take the server from others.)
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHECK_S = 0.5
SHUTDOWN_S = 3
STANDING = "server start"


def try_lock(path: Path, operation: int) -> int | None:
    """Open `path` (it must exist) and lock it without waiting. The descriptor, or None where another process has the lock."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_standing(state: Path) -> bool:
    """Whether this very server was asked to stay without commands (`parley server start`)."""
    try:
        record = json.loads(state.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    return record["owner"] == STANDING and record["pid"] == os.getpid()


def end_without_users(users: Path, state: Path) -> None:
    """Watch until nobody holds the users file, or the home is gone; then end this process.

    The process keeps the exclusive lock while it ends. A command that comes now waits and starts its own server.
    """
    while True:
        time.sleep(CHECK_S)
        try:
            if is_standing(state) or try_lock(users, fcntl.LOCK_EX) is None:
                continue
        except OSError:
            pass  # the home is gone
        break
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SHUTDOWN_S + 2)
    os._exit(1)


def fill_database(database: Path, template: Path, migrate: Callable[[], None]) -> None:
    """Copy a new home's database from an earlier home's template: migrating from nothing takes seconds."""
    if database.exists():
        return
    if template.exists():
        part = database.with_suffix(".part")
        shutil.copyfile(template, part)
        os.replace(part, database)
        return
    migrate()
    leave_template(database, template)


def leave_template(database: Path, template: Path) -> None:
    """Keep a copy of the still empty database for the next home; a cache folder that cannot be written costs only time."""
    import sqlite3

    part = template.with_suffix(f".{os.getpid()}")
    try:
        template.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(database)
        try:
            connection.execute("VACUUM INTO ?", (str(part),))
        finally:
            connection.close()
        os.replace(part, template)
    except (OSError, sqlite3.Error) as error:
        print(f"no template database kept at {template}: {error}", file=sys.stderr)
        part.unlink(missing_ok=True)


def _migrate() -> None:
    import asyncio

    from prefect.server.database import provide_database_interface

    asyncio.run(provide_database_interface().create_db())


def wait_to_write() -> None:
    """Have transactions that may write wait for each other from their beginning on.

    Prefect begins most of them as if they only read. SQLite refuses such a one at once when it writes after another one wrote,
    Prefect answers 503, and its client tries again seconds later: of four runs that begin together one began 5 s late.
    """
    from prefect.server.database.configurations import AioSqliteConfiguration

    begin = AioSqliteConfiguration.begin_transaction

    def begin_to_write(self: Any, session: Any, with_for_update: bool = False) -> Any:
        return begin(self, session, with_for_update=True)

    AioSqliteConfiguration.begin_transaction = begin_to_write


def main(descriptor: int, folder: Path, template: Path) -> None:
    """Serve on the bound socket `descriptor` until a signal or the last user's end."""
    watch = threading.Thread(
        target=end_without_users, args=(folder / "users.lock", folder / "server.json"), daemon=True
    )
    watch.start()
    fill_database(folder / "prefect.db", template, _migrate)

    wait_to_write()
    import uvicorn

    config = uvicorn.Config(
        "prefect.server.api.server:create_app",
        factory=True,
        lifespan="on",
        log_level="error",
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=descriptor)])


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
