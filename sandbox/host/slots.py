"""Host-wide slots: how many sandboxed programs run at once, whatever the number of Parley processes.

A slot is a file lock, so the kernel frees it when its holder dies. Its number gives the uid of the programs run under root.
There are as many as CPUs, and no more are taken than memory has room for.
"""

import fcntl
import os
import stat
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

from sandbox.host.capacity import available_mb, usable_cpus
from schemas.errors import SandboxUnavailable

FIRST_UID = 20001
"""Slot n runs programs as this uid and gid plus n, where the parent is root and the slots are the user's own."""
_UIDS_OF_A_FOLDER, _FOLDERS = 64, 600
"""All uids stay below 65536: a container may have no more user ids."""
T = TypeVar("T")
_GATE = "gate"
"""A thread that waits to be alone holds this lock. Nobody begins meanwhile, so that running programs end soon."""
_LONGEST_PAUSE_S = 0.02
_MEMORY_LOOK_S = 0.1
_is_alone: ContextVar[bool] = ContextVar("parley_alone", default=False)
_memory_seen: tuple[float, int | None] = (float("-inf"), None)


def uid_of(slot: int, directory: Path | None = None) -> int:
    """User and group id of a slot's programs, where the parent is root.

    Processes are bounded per user id on the whole host. Slots of two folders do not know of each other, so they share none (but
    by a chance of 1 in 600): a program that forks without end takes nothing from another's.
    """
    place = 0 if directory is None else 1 + zlib.crc32(bytes(directory.absolute())) % _FOLDERS
    return FIRST_UID + place * _UIDS_OF_A_FOLDER + slot


def slot_count() -> int:
    """Slots of this host unless an option says otherwise: the CPUs that this process may use."""
    return usable_cpus()


@contextmanager
def alone() -> Iterator[None]:
    """Within the block, `hold_slot` takes all slots in this thread: its program runs beside no other.

    Not for a thread that holds a slot already: it would wait for itself.
    """
    token = _is_alone.set(True)
    try:
        yield
    finally:
        _is_alone.reset(token)


@contextmanager
def hold_slot(
    count: int, directory: Path | None = None, memory_mb: int | None = None
) -> Iterator[int]:
    """Hold one of `count` slots, waiting until one is free; yields its number, from 0.

    Args:
        directory: folder of the lock files; one per user in the system's temporary folder otherwise.
        memory_mb: bound of the program's memory. No more slots are taken than times this is available now, but always one.

    Raises:
        SandboxUnavailable: the folder cannot be used (not ours, read-only, disk full).
    """
    folder = directory or _own_directory()
    with ExitStack() as held:
        if _is_alone.get():
            held.callback(os.close, _until_locked(lambda: _try_lock(folder / _GATE)))
            for slot in range(count):
                held.callback(
                    os.close, _until_locked(lambda slot=slot: _try_lock(folder / f"slot-{slot}"))
                )
            yield 0
        else:
            descriptor, slot = _until_locked(lambda: _any_slot(folder, count, memory_mb))
            held.callback(os.close, descriptor)
            yield slot


def _own_directory() -> Path:
    folder = Path(tempfile.gettempdir()) / f"parley-slots-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise SandboxUnavailable(
            f"{folder}: no place for the locks of the sandbox's slots ({error.strerror})"
        ) from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise SandboxUnavailable(
            f"{folder} belongs to somebody else: remove it, or set TMPDIR to a folder of your own"
        )
    return folder


def _until_locked(attempt: Callable[[], T | None]) -> T:
    """Repeat an attempt until it gives a result, and return that."""
    pause_s = 0.001
    while (found := attempt()) is None:
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
    return found


def _any_slot(folder: Path, count: int, memory_mb: int | None) -> tuple[int, int] | None:
    """Lock a free slot: its descriptor and number. None while all are taken, or somebody waits to be alone."""
    gate = _try_lock(folder / _GATE, fcntl.LOCK_SH)
    if gate is None:
        return None
    try:
        for slot in range(_with_room(count, memory_mb)):
            descriptor = _try_lock(folder / f"slot-{slot}")
            if descriptor is not None:
                return descriptor, slot
    finally:
        os.close(gate)
    return None


def _with_room(count: int, memory_mb: int | None) -> int:
    """How many of `count` programs fit into memory, at least one. Memory that running ones have not used yet counts as free."""
    global _memory_seen
    if memory_mb is None or count == 1:
        return count
    looked_at, available = _memory_seen
    if time.monotonic() - looked_at > _MEMORY_LOOK_S:
        available = available_mb()
        _memory_seen = (time.monotonic(), available)
    return count if available is None else max(1, min(count, available // memory_mb))


def _try_lock(path: Path, kind: int = fcntl.LOCK_EX) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise SandboxUnavailable(f"{path}: cannot open a slot's lock ({error.strerror})") from error
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
