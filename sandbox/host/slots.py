"""Host-wide slots: the number of sandboxed programs at once, for all Parley processes together.

A slot is a file lock, so the kernel frees it when its holder dies. Under root, its number
determines the programs' uid. There are as many slots as CPUs, and fewer are used if memory has no
room for so many programs.
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
"""First user and group id. If the parent is root and the slots are in the user's default folder,
slot n runs programs as this id plus n."""
_UIDS_OF_A_FOLDER, _FOLDERS = 64, 600
"""Bounds that keep all uids below 65536: a container may have no more user ids."""
T = TypeVar("T")
_GATE = "gate"
"""Lock of a thread that waits to be alone. Nobody else begins meanwhile, so the running programs
end soon."""
_LONGEST_PAUSE_S = 0.02
_MEMORY_LOOK_S = 0.1
_is_alone: ContextVar[bool] = ContextVar("parley_alone", default=False)
_memory_seen: tuple[float, int | None] = (float("-inf"), None)


def uid_of(slot: int, directory: Path | None = None) -> int:
    """Return the user and group id of a slot's programs, if the parent is root.

    The kernel bounds processes per user id on the whole host. Slots of two folders do not know of
    each other, so they share no id (except by a chance of 1 in 600): a program that forks without
    end takes nothing from another's.
    """
    place = 0 if directory is None else 1 + zlib.crc32(bytes(directory.absolute())) % _FOLDERS
    return FIRST_UID + place * _UIDS_OF_A_FOLDER + slot


def slot_count() -> int:
    """Return the default number of slots: the CPUs that this process may use."""
    return usable_cpus()


@contextmanager
def alone() -> Iterator[None]:
    """Let `hold_slot` take all slots in this thread, so that its program runs beside no other.

    A thread that holds a slot already must not use it: it would wait for itself.
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
    """Hold one of `count` slots while the block runs, and yield its number (0 and up).

    It waits until a slot is free.

    Args:
        count: number of slots.
        directory: folder of the lock files; by default one per user in the system's temporary
            folder.
        memory_mb: memory limit of the program in MiB. No more slots are used than fit into the
            available memory, but always one.

    Raises:
        SandboxUnavailable: the folder cannot be used (owned by another user, read-only, disk full).
    """
    folder = directory or _own_directory()
    with ExitStack() as stack:
        if _is_alone.get():
            stack.callback(os.close, _until_locked(lambda: _try_lock(folder / _GATE)))
            for slot in range(count):
                stack.callback(
                    os.close, _until_locked(lambda slot=slot: _try_lock(folder / f"slot-{slot}"))
                )
            yield 0
        else:
            descriptor, slot = _until_locked(lambda: _any_slot(folder, count, memory_mb))
            stack.callback(os.close, descriptor)
            yield slot


def _own_directory() -> Path:
    folder = Path(tempfile.gettempdir()) / f"parley-slots-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise SandboxUnavailable(
            f"{folder}: the locks of the sandbox's slots cannot be stored here ({error.strerror}). "
            "Set TMPDIR to a writable folder"
        ) from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise SandboxUnavailable(
            f"{folder} belongs to another user: remove it, or set TMPDIR to a folder of your own"
        )
    return folder


def _until_locked(attempt: Callable[[], T | None]) -> T:
    """Repeat an attempt until it gives a result, and return that."""
    pause_s = 0.001
    while (result := attempt()) is None:
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
    return result


def _any_slot(folder: Path, count: int, memory_mb: int | None) -> tuple[int, int] | None:
    """Lock a free slot, and return its descriptor and number.

    None if all are taken, or if a thread waits to be alone.
    """
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
    """Return how many of `count` programs fit into memory, at least one.

    Memory that running programs have not used yet counts as free.
    """
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
