"""Processes that Parley starts: who they are, what they may see of the environment, how they end."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from schemas.secret_names import looks_secret as looks_secret
from schemas.secret_names import without_secrets as without_secrets

POLL_S = 0.05


def start_mark(pid: int) -> str | None:
    """What tells a process from a later one of the same pid; None where no such process lives (a zombie does not)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
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
    """Whether the very process that had `mark` still lives; another one that was given its pid does not count."""
    return start_mark(pid) == mark


def wait_for_end(pid: int, mark: str, limit_s: float) -> bool:
    """Wait up to `limit_s` for that process to be gone; False where it is still there."""
    deadline = time.monotonic() + limit_s
    while is_alive(pid, mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def end_process(pid: int, mark: str, *, grace_s: float = 5.0) -> bool:
    """SIGTERM, then SIGKILL after `grace_s` (0: at once), to that very process and never to another.

    Returns:
        Whether it lived when asked.
    """
    if not is_alive(pid, mark):
        return False
    for order, limit_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
        if limit_s and is_alive(pid, mark):
            with suppress(ProcessLookupError):
                os.kill(pid, order)
            wait_for_end(pid, mark, limit_s)
    return True


@contextmanager
def sigterm_ends_cleanly() -> Iterator[None]:
    """Let SIGTERM unwind the stack (exit status 143), so that servers and clusters are ended as by Ctrl-C.

    Does nothing outside the main thread, where Python allows no handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _exit_by_sigterm)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


_asked_to_end: list[int] = []


def _exit_by_sigterm(signum: int, frame: FrameType | None) -> None:
    signal.signal(signum, signal.SIG_IGN)
    _asked_to_end.append(128 + signum)
    raise SystemExit(128 + signum)


def heed_sigterm() -> None:
    """End here if SIGTERM came before: an exception that is raised in a callback or a finalizer goes no further than that."""
    if _asked_to_end:
        raise SystemExit(_asked_to_end[0])
