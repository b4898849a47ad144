"""Slots, which limit how many sandboxed programs run at the same time on this host.

All Parley processes share the slots. A slot is a file lock, so the kernel frees it when its holder
dies. If Parley runs as root, the slot's number determines the program's user id. There are as many
slots as CPUs that this process may use. Fewer are used if the memory of this host, or of the
control group, does not suffice for so many programs.

A shortage may not occur again if the program runs alone. A fault of the installation always does.
"""

import errno
import fcntl
import functools
import math
import os
import stat
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import ParamSpec, TypeVar

from schemas.errors import HostShortage, SandboxUnavailable

MIB = 1024 * 1024
_CGROUPS = Path("/sys/fs/cgroup")


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use, 1 and up.

    It is the number of CPUs in the process's affinity mask, or less if a control group has a CPU
    quota.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    quotas = [
        math.ceil(quota) for quota in map(_cpu_quota, _own_groups("cpu")) if quota is not None
    ]
    return max(1, min([count, *quotas]))


def available_mb() -> int | None:
    """Return the MiB of memory that programs could use now before a process is killed.

    It is the machine's available memory, or that of a control group if less. Memory of file caches
    counts as free. Return None if the system does not report it.
    """
    sizes = [_machine_available(), *map(_group_headroom, _own_groups("memory"))]
    reported = [size for size in sizes if size is not None]
    return max(0, min(reported)) // MIB if reported else None


def _machine_available() -> int | None:
    for line in _text(Path("/proc/meminfo")).splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None


def _own_groups(controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control group and of its parents.

    Args:
        controller: controller whose groups to return in version 1. In version 2 all controllers
            share one hierarchy.
    """
    for line in _text(Path("/proc/self/cgroup")).splitlines():
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        root = _CGROUPS / names
        group = root / path.lstrip("/")
        while group != root and root in group.parents:
            yield group
            group = group.parent
        yield root


def _group_headroom(group: Path) -> int | None:
    limit = _number(group / "memory.max") or _number(group / "memory.limit_in_bytes")
    used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes")
    if limit is None or used is None:
        return None
    stat = dict(line.split(" ", 1) for line in _text(group / "memory.stat").splitlines())
    return limit - used + int(stat.get("total_inactive_file") or stat.get("inactive_file") or 0)


def _cpu_quota(group: Path) -> float | None:
    quota, _, period = _text(group / "cpu.max").strip().partition(" ")
    if quota.isdigit():
        return int(quota) / int(period)
    slice_us, period_us = _number(group / "cpu.cfs_quota_us"), _number(group / "cpu.cfs_period_us")
    return slice_us / period_us if slice_us and period_us else None


def _number(path: Path) -> int | None:
    """Return the number in a file; None without a file, or if it means no limit (`max`, -1)."""
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


SHORT_OF = frozenset({errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE})
_NAMES = (
    *(os.strerror(number).lower() for number in SHORT_OF),
    "memoryerror",
    "can't start new thread",
    "out of memory",
)
"""Texts in messages of the kernel, of Python and of bwrap that mean a shortage."""


def sandbox_fault(message: str, explanation: str) -> SandboxUnavailable:
    """Return the error to raise if another program could not start.

    Args:
        message: text of the error.
        explanation: text of the other program (bwrap, a daemon, the harness). If it names a
            shortage, the error is a HostShortage.
    """
    named = any(name in explanation.lower() for name in _NAMES)
    return HostShortage(message) if named else SandboxUnavailable(message)


FIRST_UID = 20001
"""First user and group id. If the parent is root and the slots are in the user's default folder,
slot n runs programs as this id plus n."""
_UIDS_OF_A_FOLDER, _FOLDERS = 64, 600
"""Number of user ids for each folder, and number of folders. All ids stay below 65536, because a
container may have no more user ids.
"""
T = TypeVar("T")
_GATE = "gate"
"""Name of the lock of a thread that waits until no other program runs. Meanwhile no other program
starts, so the wait is short.
"""
_LONGEST_PAUSE_S = 0.02
_MEMORY_LOOK_S = 0.1
_is_alone: ContextVar[bool] = ContextVar("parley_alone", default=False)
"""True in a thread that runs its program alone.

Between `retried_alone` and `hold_slot` lie the test runners and every backend of `Sandbox.session`,
which would all need an argument.
"""
_memory_seen: tuple[float, int | None] = (float("-inf"), None)
_last_slot = 0
"""Slot that this process held last."""


def uid_of(slot: int, directory: Path | None = None) -> int:
    """Return the user id (also the group id) of a slot's programs if Parley runs as root.

    The kernel limits the number of processes of a user on the whole host. Slots of different
    folders therefore have different ids (except with a chance of 1 in 600), so that a fork bomb in
    one slot does not use up the process limit of another.
    """
    place = 0 if directory is None else 1 + zlib.crc32(bytes(directory.absolute())) % _FOLDERS
    return FIRST_UID + place * _UIDS_OF_A_FOLDER + slot


def slot_count() -> int:
    """Return the default number of slots: the CPUs that this process may use."""
    return usable_cpus()


@contextmanager
def alone() -> Iterator[None]:
    """Let `hold_slot` in this thread take all slots, so that no other program runs.

    A thread that already holds a slot must not call this, because it would wait for itself.
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

    The call waits until a slot is free.

    Args:
        count: number of slots.
        directory: folder of the lock files; by default one per user in the system's temporary
            folder.
        memory_mb: memory limit of the program in MiB. Only as many slots are used as programs fit
            into the available memory, but at least one.

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
    """Repeat an attempt until it returns a result, and return the result."""
    pause_s = 0.001
    while (result := attempt()) is None:
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
    return result


def _any_slot(folder: Path, count: int, memory_mb: int | None) -> tuple[int, int] | None:
    """Lock a free slot, and return its descriptor and number.

    The slot that this process held last is tried first, because the process may have an idle zygote
    with that slot's user id. Return None if all slots are taken, or if a thread waits until no
    other program runs.
    """
    global _last_slot
    gate = _try_lock(folder / _GATE, fcntl.LOCK_SH)
    if gate is None:
        return None
    try:
        for slot in sorted(range(_with_room(count, memory_mb)), key=lambda n: n != _last_slot):
            descriptor = _try_lock(folder / f"slot-{slot}")
            if descriptor is not None:
                _last_slot = slot
                return descriptor, slot
    finally:
        os.close(gate)
    return None


def _with_room(count: int, memory_mb: int | None) -> int:
    """Return how many of `count` programs fit into memory, at least one.

    Memory that running programs may use but have not used yet counts as free.
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


P = ParamSpec("P")


def is_shortage(fault: SandboxUnavailable) -> bool:
    """Return True if the machine lacked memory, processes, descriptors or time.

    That is the case if the fault or one of its causes is a HostShortage, or an OSError with one of
    the error numbers for shortages.
    """
    cause: BaseException | None = fault
    while cause is not None:
        if isinstance(cause, HostShortage) or (
            isinstance(cause, OSError) and cause.errno in SHORT_OF
        ):
            return True
        cause = cause.__cause__
    return False


def retried_alone(run: Callable[P, T]) -> Callable[P, T]:
    """Make a function retry once after a shortage, while no other sandboxed program runs.

    A fault of the second attempt is raised unchanged.
    """

    @functools.wraps(run)
    def once_more(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return run(*args, **kwargs)
        except SandboxUnavailable as fault:
            if not is_shortage(fault):
                raise
        with alone():
            return run(*args, **kwargs)

    return once_more
