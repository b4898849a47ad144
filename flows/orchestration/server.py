"""One real Prefect server per home: the configured one, else one of our own that ends with its last command.

Files under `<home>/prefect`:
    server.lock   exclusive while somebody decides to start, adopt or stop (held for moments)
    users.lock    shared for as long as a command uses the server; see `server_process`
    server.json   the server's pid, start mark, port and owner
    prefect.db, server.log
"""

import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from flows.orchestration.processes import POLL_S, end_process, start_mark
from flows.orchestration.server_process import STANDING, try_lock
from flows.orchestration.server_record import Owner, Record, forget, read_record, write_record
from flows.orchestration.server_watch import kept_up
from flows.orchestration.settings import (
    LOOPBACK,
    changed_environment,
    check_configured,
    client_settings,
    configured_api_url,
    database_template,
    is_healthy,
    naming_lost_server,
    send_what_is_queued,
    server_environment,
)
from schemas.errors import ServerUnavailable, UsageError

READY_LIMIT_S = 120.0
LOCK_LIMIT_S = 60.0
ENDING_LIMIT_S = 10.0
PROCESS_FILE = Path(__file__).with_name("server_process.py")


@dataclass(frozen=True, slots=True)
class PrefectServer:
    """A server that answers. `pid` is None where it is configured and not ours; `owned` says whether this call started it."""

    api_url: str
    ui_url: str
    pid: int | None
    owned: bool


def _as_server(record: Record, *, owned: bool) -> PrefectServer:
    return PrefectServer(f"{record.root}/api", record.root, record.pid, owned)


@dataclass(frozen=True, slots=True)
class PendingServer:
    """A server that may still be starting: its address is known at once, `wait_ready` says when it answers."""

    server: PrefectServer
    log: Path | None
    """Its log; None for a configured server."""
    _record: Record | None = None
    _answers: threading.Event = field(default_factory=threading.Event)

    def wait_ready(self, limit_s: float = READY_LIMIT_S) -> PrefectServer:
        """Return the server as soon as it answers.

        Raises:
            ServerUnavailable: it ended, or did not answer within `limit_s`.
        """
        if self._record is None or self.log is None:
            check_configured(self.server.api_url)
            return self.server
        deadline = time.monotonic() + limit_s
        while not is_healthy(self.server.api_url):
            if not self._record.lives():
                raise ServerUnavailable(
                    f"the Prefect server for {self.log.parent.parent} ended at its start: {_last_lines(self.log)}"
                )
            if time.monotonic() > deadline:
                raise ServerUnavailable(
                    f"Prefect server {self.server.api_url} (pid {self._record.pid}) gave no answer in {limit_s:.0f} s; "
                    f"see {self.log}, or end it by `parley server stop --force`"
                )
            time.sleep(POLL_S)
        self._answers.set()
        return self.server


@contextmanager
def prefect_server(home: Path, *, secret_names: tuple[str, ...] = ()) -> Iterator[PrefectServer]:
    """A Prefect server that answers, for the length of the context; flows of this process use it.

    Args:
        home: `$PARLEY_HOME`.
        secret_names: variables that the server must not see, besides those that look like keys.

    Raises:
        ServerUnavailable: none could be started, or the configured one does not answer.
    """
    with starting_prefect_server(home, secret_names=secret_names) as pending:
        yield pending.wait_ready()


@contextmanager
def starting_prefect_server(
    home: Path, *, secret_names: tuple[str, ...] = ()
) -> Iterator[PendingServer]:
    """As `prefect_server`, but without waiting: start what else takes seconds, then call `wait_ready`.

    A server of ours that ends before the context does, killed for example, is started again on its port and its database.
    """
    configured = configured_api_url()
    if configured is not None:
        with changed_environment({"PREFECT_API_URL": configured}), naming_lost_server(configured):
            try:
                yield PendingServer(
                    PrefectServer(configured, configured.removesuffix("/api"), None, owned=False),
                    None,
                )
            finally:
                send_what_is_queued()
        return
    folder = _folder(home)
    users, pending = _join(folder, secret_names)
    try:
        api_url = pending.server.api_url
        with changed_environment(client_settings(folder, api_url)), naming_lost_server(api_url):
            try:
                with kept_up(
                    lambda: _is_missed(folder),
                    lambda: _start_again(folder, secret_names),
                    pending._answers,
                ):
                    yield pending
            finally:
                send_what_is_queued()
    finally:
        _leave(folder, users)


def start_server(home: Path, *, port: int = 0, secret_names: tuple[str, ...] = ()) -> PrefectServer:
    """Start the home's server, or adopt the running one, to stay until `stop_server`. `port` 0 takes a free one.

    Raises:
        ServerUnavailable: it did not start, or the port is taken.
    """
    folder = _folder(home)
    users, pending = _join(folder, secret_names, owner=STANDING, port=port)
    try:
        return pending.wait_ready()
    finally:
        os.close(users)


def stop_server(home: Path, *, force: bool = False) -> bool:
    """End the server that stays. False where none runs.

    Args:
        force: end it even if a running command uses it.

    Raises:
        UsageError: a command uses it and `force` is not given.
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
                f"Prefect server {record.root} (pid {record.pid}) is in use by a running command; wait, or give --force"
            )
        end_process(record.pid, record.mark)
        forget(folder)
        if users is not None:
            os.close(users)
        return True


def server_status(home: Path) -> PrefectServer | None:
    """The home's server if it runs and answers, else None. `owned` is true for a server that stays (`parley server start`)."""
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
    """Hold the lock under which a server is started, adopted or stopped."""
    deadline = time.monotonic() + LOCK_LIMIT_S
    while (descriptor := try_lock(folder / "server.lock", fcntl.LOCK_EX)) is None:
        if time.monotonic() > deadline:
            raise ServerUnavailable(
                f"{folder / 'server.lock'} was held by another process for {LOCK_LIMIT_S:.0f} s; end it and try again"
            )
        time.sleep(POLL_S)
    try:
        yield
    finally:
        os.close(descriptor)


def _join(
    folder: Path, secret_names: tuple[str, ...], *, owner: Owner = "command", port: int = 0
) -> tuple[int, PendingServer]:
    """Become a user of the home's server, and start it if there is none; returns the held lock and the server."""
    with _decision(folder):
        users = _become_user(folder)
        try:
            record = read_record(folder)
            if record is not None and record.lives():
                record, owned = _adopt(folder, record, owner), False
            else:
                record, owned = _launch(folder, owner, port, secret_names), True
        except BaseException:  # a signal too: whoever still holds the lock keeps the server up
            os.close(users)
            raise
    return users, PendingServer(_as_server(record, owned=owned), folder / "server.log", record)


def _become_user(folder: Path) -> int:
    """Take a shared lock on the users file. A server that found no users holds it while it ends: wait for its end."""
    deadline = time.monotonic() + ENDING_LIMIT_S
    while (descriptor := try_lock(folder / "users.lock", fcntl.LOCK_SH)) is None:
        record = read_record(folder)
        if time.monotonic() > deadline:
            if record is None or not record.lives():
                raise ServerUnavailable(
                    f"{folder / 'users.lock'} is held by a process that is no server of this home; end it and try again"
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


def _leave(folder: Path, users: int) -> None:
    """Stop being a user; the last one ends a server that does not stay."""
    with _decision(folder):
        os.close(users)
        last = try_lock(folder / "users.lock", fcntl.LOCK_EX)
        record = read_record(folder)
        if last is not None and record is not None and record.owner != STANDING:
            end_process(record.pid, record.mark)
            forget(folder)
        if last is not None:
            os.close(last)


def _launch(folder: Path, owner: Owner, port: int, secret_names: tuple[str, ...]) -> Record:
    """Start a server process on a socket that is bound here, so that no other process can take its port."""
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((LOOPBACK, port))
        except OSError as error:
            raise ServerUnavailable(
                f"port {port} on {LOOPBACK} cannot be used ({error.strerror}); name another, or 0 for a free one"
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


def _is_missed(folder: Path) -> bool:
    """Whether the home's server ended without being stopped: a command that stops it removes its record."""
    record = read_record(folder)
    return record is not None and not record.lives()


def _start_again(folder: Path, secret_names: tuple[str, ...]) -> None:
    """Start the missed server, unless another command has done so. Its port stays, so that all clients find it."""
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
    return f"{' | '.join(lines) or 'nothing in its log'} (see {log})"
