"""Process of the Prefect server, started by path (`python -P`) without importing Parley.

The process runs as long as another process holds a shared lock on the users file. The kernel
releases a lock when its holder dies, even by SIGKILL. So the server ends about a second after its
last command, and no command depends on the one that started the server. A parent death signal would
not work: it belongs to the thread that forked, and would end the server of other commands.
"""

import fcntl
import gc
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
_RETRY_S = 0.05
STANDING = "server start"


def try_lock(path: Path, operation: int) -> int | None:
    """Open and lock an existing file without waiting.

    Returns:
        The descriptor, or None if another process holds the lock.
    """
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_standing(state: Path) -> bool:
    """Return True if this server is permanent (`parley server start`)."""
    try:
        record = json.loads(state.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    return record["owner"] == STANDING and record["pid"] == os.getpid()


def end_without_users(users: Path, state: Path) -> None:
    """Wait until no process locks the users file or the home is deleted, then end this process.

    The process holds the exclusive lock while it ends. A command that starts now waits for it, and
    then starts a new server.
    """
    while True:
        time.sleep(CHECK_S)
        try:
            if is_standing(state) or try_lock(users, fcntl.LOCK_EX) is None:
                continue
        except OSError:
            pass  # the home was deleted
        break
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SHUTDOWN_S + 2)
    os._exit(1)


def fill_database(database: Path, template: Path, migrate: Callable[[], None]) -> None:
    """Copy the cached template to a home's database, because a migration takes seconds."""
    if database.exists():
        return
    if template.exists():
        part = database.with_suffix(".part")
        shutil.copyfile(template, part)
        os.replace(part, database)
        return
    migrate()
    save_template(database, template)


def save_template(database: Path, template: Path) -> None:
    """Save a copy of the empty database for other homes, which then start faster."""
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
        print(f"the template database {template} could not be saved: {error}", file=sys.stderr)
        part.unlink(missing_ok=True)


def has_current_schema(database: Path, template: Path) -> bool:
    """Return True if a database needs no migration: its schema version is the template's."""
    version = _schema_version(database)
    return version is not None and version == _schema_version(template)


def _schema_version(database: Path) -> str | None:
    import sqlite3

    if not database.exists():
        return None
    connection = sqlite3.connect(database)
    try:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error:
        return None
    finally:
        connection.close()
    return row[0] if row else None


def _migrate() -> None:
    import asyncio

    from prefect.server.database import provide_database_interface

    asyncio.run(provide_database_interface().create_db())


def wait_to_write() -> None:
    """Make write transactions wait for each other from their beginning.

    Prefect starts most transactions as read transactions. SQLite aborts such a transaction if it
    writes after another transaction has written. Prefect then answers 503, and its client retries
    seconds later: of four runs that started together, one started 5 s late.
    """
    from prefect.server.database.configurations import AioSqliteConfiguration

    begin = AioSqliteConfiguration.begin_transaction

    def begin_to_write(self: Any, session: Any, with_for_update: bool = False) -> Any:
        return begin(self, session, with_for_update=True)

    AioSqliteConfiguration.begin_transaction = begin_to_write


def complete_routes(address: tuple[str, int]) -> None:
    """Send a request that is compared with all routes, as soon as the server answers.

    FastAPI completes a route when the first request is compared with it. That takes 0.15 s of CPU
    time in all, for which the first flow of a command would wait.
    """
    while True:
        try:
            with socket.create_connection(address) as client:
                client.sendall(b"GET /api/no-such-route HTTP/1.1\r\nHost: parley\r\n\r\n")
                client.recv(1)
                return
        except OSError:
            time.sleep(_RETRY_S)


def main(descriptor: int, folder: Path, template: Path) -> None:
    """Serve on the bound socket `descriptor` until a signal arrives or the last user ends."""
    watch = threading.Thread(
        target=end_without_users, args=(folder / "users.lock", folder / "server.json"), daemon=True
    )
    watch.start()
    database = folder / "prefect.db"
    fill_database(database, template, _migrate)
    if has_current_schema(database, template):  # The import of Alembic takes 0.1 s of CPU time.
        os.environ["PREFECT_API_DATABASE_MIGRATE_ON_START"] = "false"

    gc.disable()  # collections take an eighth of the import of Prefect's server, and free nothing
    wait_to_write()
    import uvicorn

    config = uvicorn.Config(
        "prefect.server.api.server:create_app",
        factory=True,
        lifespan="on",
        log_level="error",
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    config.load()
    gc.freeze()
    gc.set_threshold(20_000, 20, 10)
    gc.enable()
    bound = socket.socket(fileno=descriptor)
    threading.Thread(target=complete_routes, args=(bound.getsockname(),), daemon=True).start()
    uvicorn.Server(config).run(sockets=[bound])


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
