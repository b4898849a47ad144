"""Host-wide slots: how many sandboxed programs run at once, whatever the number of Parley processes.

A slot is a file lock, so the kernel frees it when its holder dies. Its number gives the uid of the programs run under root.
"""

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import SandboxUnavailable

FIRST_UID = 20001
"""Slot n runs programs as this uid and gid plus n, where the parent is root."""
_LONGEST_PAUSE_S = 0.02


def slot_count() -> int:
    """Slots of this host unless an option says otherwise: the CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def hold_slot(count: int, directory: Path | None = None) -> Iterator[int]:
    """Hold one of `count` slots, waiting until one is free; yields its number, from 0.

    Args:
        directory: folder of the lock files; one per user in the system's temporary folder otherwise.

    Raises:
        SandboxUnavailable: the folder cannot be used (not ours, read-only, disk full).
    """
    folder = directory or _own_directory()
    descriptor, slot = _acquire(folder, count)
    try:
        yield slot
    finally:
        os.close(descriptor)


def _own_directory() -> Path:
    folder = Path(tempfile.gettempdir()) / f"parley-slots-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise SandboxUnavailable(f"{folder}: no place for the locks of the sandbox's slots ({error.strerror})") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise SandboxUnavailable(f"{folder} belongs to somebody else: remove it, or set TMPDIR to a folder of your own")
    return folder


def _acquire(folder: Path, count: int) -> tuple[int, int]:
    pause_s = 0.001
    while True:
        for slot in range(count):
            descriptor = _try_lock(folder / f"slot-{slot}")
            if descriptor is not None:
                return descriptor, slot
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _try_lock(path: Path) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise SandboxUnavailable(f"{path}: cannot open a slot's lock ({error.strerror})") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
