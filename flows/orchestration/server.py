"""Prefect server of a home: a configured one, or one that Parley starts for its commands.

Parley's own server ends when the last command that uses it has ended.

Files under `<home>/prefect`:
    server.lock   exclusive lock, held briefly while a process starts, adopts or stops the server
    users.lock    shared lock, held while a command uses the server; see `server_process`
    server.json   the server's pid, start mark, port and owner
    prefect.db, server.log
"""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from flows.orchestration.processes import POLL_S, end_process, send_signal, start_mark
from flows.orchestration.server_process import STANDING, try_lock
from flows.orchestration.server_record import (
    Owner,
    Record,
    forget,
    read_record,
    restart_on_exit,
    write_record,
)
from flows.orchestration.settings import (
    LOOPBACK,
    changed_environment,
    check_configured,
    client_settings,
    configured_api_url,
    database_template,
    explain_lost_server,
    flush_prefect_queues,
    is_healthy,
    server_environment,
    without_heartbeats,
)
from schemas.errors import ServerUnavailable, UsageError

READY_LIMIT_S = 120.0
LOCK_LIMIT_S = 60.0
ENDING_LIMIT_S = 10.0
PROCESS_FILE = Path(__file__).with_name("server_process.py")


@dataclass(frozen=True, slots=True)
class PrefectServer:
    """Prefect server that answers requests.

    `pid` is None for a configured server, which Parley did not start. `owned` is True if this call
    started the server.
    """

    api_url: str
    ui_url: str
    pid: int | None
    owned: bool

    def flow_settings(self) -> AbstractContextManager[None]:
        """Return a context in which a command's flows run: without heartbeats to our own server."""
        return nullcontext() if self.pid is None else without_heartbeats()


def _as_server(record: Record, *, owned: bool) -> PrefectServer:
    return PrefectServer(f"{record.root}/api", record.root, record.pid, owned)


@dataclass(frozen=True, slots=True)
class PendingServer:
    """Prefect server that may still be starting.

    Its address is known already. `wait_ready` waits until it answers.
    """

    server: PrefectServer
    log: Path | None
    """Path of the server's log. None for a configured server."""
    _record: Record | None = None
    _answers: threading.Event = field(default_factory=threading.Event)
    leave: Callable[[], None] = lambda: None
    """Function that ends the use of the server, which then ends while the caller ends other
    services."""

    def wait_ready(self, limit_s: float = READY_LIMIT_S) -> PrefectServer:
        """Wait for the server to answer, and return it.

        Raises:
            ServerUnavailable: the server ended, or did not answer within `limit_s` seconds.
        """
        if self._record is None or self.log is None:
            check_configured(self.server.api_url)
            return self.server
        deadline = time.monotonic() + limit_s
        while not is_healthy(self.server.api_url):
            if not self._record.lives():
                raise ServerUnavailable(
                    f"the Prefect server for {self.log.parent.parent} ended while starting:"
                    f" {_last_lines(self.log)}"
                )
            if time.monotonic() > deadline:
                raise ServerUnavailable(
                    f"Prefect server {self.server.api_url} (pid {self._record.pid}) did not"
                    f" answer within {limit_s:.0f} s. Read {self.log}, or stop it with `parley"
                    " server stop --force`"
                )
            time.sleep(POLL_S)
        self._answers.set()
        return self.server


@contextmanager
def starting_prefect_server(
    home: Path, *, secret_names: tuple[str, ...] = ()
) -> Iterator[PendingServer]:
    """Yield a Prefect server that may still be starting.

    The caller can do other slow work before it calls `wait_ready`. Then flows of this process use
    the server within the block. If a server that Parley started crashes within the block, it is
    restarted with the same port and database.

    Args:
        home: Parley's home.
        secret_names: variables to hide from the server, besides those that look like keys.
    """
    configured = configured_api_url()
    if configured is not None:
        with changed_environment({"PREFECT_API_URL": configured}), explain_lost_server(configured):
            try:
                yield PendingServer(
                    PrefectServer(configured, configured.removesuffix("/api"), None, owned=False),
                    None,
                )
            finally:
                flush_prefect_queues()
        return
    folder = _folder(home)
    users, pending = _join(folder, secret_names)
    api_url = pending.server.api_url
    with (
        ExitStack() as ending,
        changed_environment(client_settings(folder, api_url)),
        explain_lost_server(api_url),
        ExitStack() as use,
    ):
        use.callback(lambda: ending.callback(_leave(folder, users)))
        use.callback(flush_prefect_queues)
        watch = restart_on_exit(
            lambda: _has_crashed(folder),
            lambda: _start_again(folder, secret_names),
            pending._answers,
        )
        use.enter_context(watch)
        yield replace(pending, leave=use.close)


def start_server(home: Path, *, port: int = 0, secret_names: tuple[str, ...] = ()) -> PrefectServer:
    """Start the home's server, or adopt the running one, and keep it until `stop_server`.

    Args:
        home: Parley's home.
        port: port of a new server. 0: a free port.
        secret_names: variables to hide from the server.

    Raises:
        ServerUnavailable: the server did not start, or the port is in use.
    """
    folder = _folder(home)
    users, pending = _join(folder, secret_names, owner=STANDING, port=port)
    try:
        return pending.wait_ready()
    finally:
        os.close(users)


def stop_server(home: Path, *, force: bool = False) -> bool:
    """Stop the home's server, and return whether one was running.

    Args:
        home: Parley's home.
        force: stop the server even if a running command uses it.

    Raises:
        UsageError: a running command uses the server, and `force` is False.
    """
    folder = _folder(home)
    with _decision(folder):
        record = read_record(folder)
        if record is None or not record.lives():
            forget(folder)
            return False
        users = try_lock(folder / "users.lock", fcntl.LOCK_EX)
        if users is None and not force:
            raise UsageError(
                f"Prefect server {record.root} (pid {record.pid}) is in use by a running command."
                " Wait for it, or pass --force"
            )
        end_process(record.pid, record.mark)
        forget(folder)
        if users is not None:
            os.close(users)
        return True


def server_status(home: Path) -> PrefectServer | None:
    """Return the home's Prefect server if it answers, else None.

    `owned` is True for a permanent server (`parley server start`).
    """
    record = read_record(home.resolve() / "prefect")
    if record is None or not record.lives() or not is_healthy(f"{record.root}/api"):
        return None
    return _as_server(record, owned=record.owner == STANDING)


def _folder(home: Path) -> Path:
    folder = home.resolve() / "prefect"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("server.lock", "users.lock"):
        (folder / name).touch()
    return folder


@contextmanager
def _decision(folder: Path) -> Iterator[None]:
    """Hold the lock that is required for starting, adopting or stopping the server."""
    deadline = time.monotonic() + LOCK_LIMIT_S
    while (descriptor := try_lock(folder / "server.lock", fcntl.LOCK_EX)) is None:
        if time.monotonic() > deadline:
            raise ServerUnavailable(
                f"{folder / 'server.lock'} was locked by another process for {LOCK_LIMIT_S:.0f}"
                " s. End that process and try again"
            )
        time.sleep(POLL_S)
    try:
        yield
    finally:
        os.close(descriptor)


def _join(
    folder: Path, secret_names: tuple[str, ...], *, owner: Owner = "command", port: int = 0
) -> tuple[int, PendingServer]:
    """Become a user of the home's server, and start one if none is running.

    Returns:
        The descriptor of the users lock, and the server.
    """
    with _decision(folder):
        users = _become_user(folder)
        try:
            record = read_record(folder)
            if record is not None and record.lives():
                record, owned = _adopt(folder, record, owner), False
            else:
                record, owned = _launch(folder, owner, port, secret_names), True
        # Also after a signal, because a held lock would keep the server running.
        except BaseException:
            os.close(users)
            raise
    return users, PendingServer(_as_server(record, owned=owned), folder / "server.log", record)


def _become_user(folder: Path) -> int:
    """Take a shared lock on the users file, and return its descriptor.

    A server without users holds an exclusive lock while it ends. This function waits until it has
    ended.
    """
    deadline = time.monotonic() + ENDING_LIMIT_S
    while (descriptor := try_lock(folder / "users.lock", fcntl.LOCK_SH)) is None:
        record = read_record(folder)
        if time.monotonic() > deadline:
            if record is None or not record.lives():
                raise ServerUnavailable(
                    f"{folder / 'users.lock'} is locked by a process that is not this home's"
                    " server. End that process and try again"
                )
            end_process(record.pid, record.mark, grace_s=0)
        time.sleep(POLL_S)
    return descriptor


def _adopt(folder: Path, record: Record, owner: Owner) -> Record:
    if owner == "command" or record.owner == owner:
        return record
    standing = Record(**{**asdict(record), "owner": owner})
    write_record(folder, standing)
    return standing


def _leave(folder: Path, users: int) -> Callable[[], None]:
    """Release the users lock, and return a function that waits for the server's end.

    The last user tells the server to end, unless it is permanent. A command that starts meanwhile
    waits for the users lock.
    """
    with _decision(folder):
        os.close(users)
        last = try_lock(folder / "users.lock", fcntl.LOCK_EX)
        record = read_record(folder)
        if last is None:
            return lambda: None
        if record is None or record.owner == STANDING:
            os.close(last)
            return lambda: None
        send_signal(record.pid, record.mark, signal.SIGTERM)

    def wait() -> None:
        end_process(record.pid, record.mark)
        forget(folder)
        os.close(last)

    return wait


def _launch(folder: Path, owner: Owner, port: int, secret_names: tuple[str, ...]) -> Record:
    """Start a server process on a bound socket, so that no other process can take its port."""
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((LOOPBACK, port))
        except OSError as error:
            raise ServerUnavailable(
                f"port {port} on {LOOPBACK} cannot be used ({error.strerror}). Choose another"
                " port, or 0 for a free one"
            ) from error
        port = bound.getsockname()[1]
        with open(folder / "server.log", "wb") as log:
            process = subprocess.Popen(
                (
                    sys.executable,
                    "-P",
                    str(PROCESS_FILE),
                    str(bound.fileno()),
                    str(folder),
                    str(database_template()),
                ),
                env=server_environment(folder, port, secret_names),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(bound.fileno(),),
                start_new_session=True,
            )
    record = Record(process.pid, start_mark(process.pid) or "", port, owner)
    write_record(folder, record)
    return record


def _has_crashed(folder: Path) -> bool:
    """Return True if the home's server has crashed: it ended, and its record still exists."""
    record = read_record(folder)
    return record is not None and not record.lives()


def _start_again(folder: Path, secret_names: tuple[str, ...]) -> None:
    """Restart a crashed server on its port, unless another command has restarted it."""
    with _decision(folder):
        record = read_record(folder)
        if record is not None and not record.lives():
            _launch(folder, record.owner, record.port, secret_names)


def _last_lines(log: Path, n: int = 3) -> str:
    lines = (
        log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-n:]
        if log.exists()
        else []
    )
    return f"{' | '.join(lines) or 'its log is empty'} (see {log})"
