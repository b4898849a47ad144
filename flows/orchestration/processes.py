"""Processes that Parley starts: identify them, hide keys from them, end them."""

import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from schemas.outside.secret_names import looks_secret as looks_secret
from schemas.outside.secret_names import without_secrets as without_secrets

POLL_S = 0.05
_END_POLL_S = 0.01
_HOST = socket.gethostname()


@contextmanager
def hidden_secrets(keep: tuple[str, ...]) -> Iterator[None]:
    """Hide environment variables that look like API keys from processes that start in the block.

    Variables named in `keep` stay visible.

    A process's initial variables stay readable in /proc for its whole life, even if it removes
    them.
    """
    hidden = {
        name: value for name, value in os.environ.items() if looks_secret(name) and name not in keep
    }
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(hidden)


def start_mark(pid: int) -> str | None:
    """Return a text that distinguishes a process from a later process with the same pid.

    It contains the process's start time. None: the process does not exist, or is a zombie.
    """
    try:
        fields = (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()
        )
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None if Path("/proc/self/stat").exists() else _portable_start_mark(pid)
    state, started = fields[0], fields[19]
    return None if state in "ZX" else f"{boot}/{started}"


def _portable_start_mark(pid: int) -> str | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.1f}"
    except psutil.NoSuchProcess:
        return None


def is_alive(pid: int, mark: str) -> bool:
    """Return True if the process with this pid is running and still has this start mark."""
    return start_mark(pid) == mark


def wait_for_end(pid: int, mark: str, limit_s: float) -> bool:
    """Wait up to `limit_s` seconds for a process to end, and return whether it ended."""
    deadline = time.monotonic() + limit_s
    while is_alive(pid, mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(_END_POLL_S)
    return True


def send_signal(pid: int, mark: str, number: signal.Signals) -> bool:
    """Send a signal to a process, and return whether it was running.

    A later process with the same pid is never signalled.
    """
    if not is_alive(pid, mark):
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, number)
    return True


def end_process(pid: int, mark: str, *, grace_s: float = 5.0) -> bool:
    """Send SIGTERM to a process, and SIGKILL after `grace_s` seconds (0: at once).

    Returns:
        True if the process was running.
    """
    if not is_alive(pid, mark):
        return False
    for number, limit_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
        if limit_s and send_signal(pid, mark, number):
            wait_for_end(pid, mark, limit_s)
    return True


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Yield a folder below `parent` for this process's temporary files.

    The folder is removed when the block ends.
    """
    remove_abandoned(parent)
    folder = parent / f"{_HOST}-{os.getpid()}-{_started(os.getpid())}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(parent: Path) -> None:
    """Remove the scratch folders of this host's killed processes. Other hosts remove their own."""
    for folder in parent.glob(f"{_HOST}-*-*"):
        pid, _, started = folder.name.removeprefix(f"{_HOST}-").partition("-")
        if pid.isdigit() and _started(int(pid)) != started:
            shutil.rmtree(folder, ignore_errors=True)


def _started(pid: int) -> str | None:
    mark = start_mark(pid)
    return mark.replace("/", "-") if mark else None
