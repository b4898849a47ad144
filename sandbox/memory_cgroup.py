"""A memory cgroup around one session, where this process may make one; resource limits alone bound each process, not their sum.

Names hold the maker's pid and start time, so that what a killed Parley left behind is removed by the next one.
"""

import functools
import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox.abandoned import start_time

_PREFIX = "parley-"
_counter = itertools.count()
_REMOVAL_TRIES = 50


@dataclass(frozen=True)
class MemoryCgroup:
    """A cgroup that exists; `version` is 1 or 2."""

    folder: Path
    version: int

    def add(self, pid: int) -> None:
        """Move a process in; its later children follow. Raises OSError."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def kills(self) -> int:
        """How many processes the kernel has killed here for want of memory."""
        name = "memory.oom_control" if self.version == 1 else "memory.events"
        for line in (self.folder / name).read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill":
                return int(value)
        return 0


@contextmanager
def memory_cgroup(limit_bytes: int) -> Iterator[MemoryCgroup | None]:
    """A new cgroup with that limit, swap included; None where none can be made. Removed at the end."""
    group = _make(limit_bytes)
    try:
        yield group
    finally:
        if group is not None:
            _remove(group.folder)


def remove_abandoned() -> None:
    """Remove the groups of killed Parleys. The first group that a process makes does so, too, but there may be none to make."""
    place = _writable_parent()
    if place is not None:
        _reap(place[0])


def _make(limit_bytes: int) -> MemoryCgroup | None:
    place = _writable_parent()
    if place is None:
        return None
    parent, version = place
    folder = parent / f"{_PREFIX}{os.getpid()}-{start_time(os.getpid())}-{next(_counter)}"
    try:
        folder.mkdir()
    except OSError:
        return None
    limit = str(limit_bytes)
    hard, swap = (
        (("memory.limit_in_bytes", limit), ("memory.memsw.limit_in_bytes", limit))
        if version == 1
        else (("memory.max", limit), ("memory.swap.max", "0"))
    )
    try:
        (folder / hard[0]).write_text(hard[1])
    except OSError:
        _remove(folder)
        return None
    with suppress(OSError):  # absent where the kernel does not account swap
        (folder / swap[0]).write_text(swap[1])
    return MemoryCgroup(folder, version)


@functools.cache
def _writable_parent() -> tuple[Path, int] | None:
    """Our own memory cgroup if children can be made in it. Looks once a process, and clears what dead ones left."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            place, version = Path(f"/sys/fs/cgroup/memory{path}"), 1
        elif controllers == "" and Path("/sys/fs/cgroup/cgroup.controllers").exists():
            place, version = Path(f"/sys/fs/cgroup{path}"), 2
        else:
            continue
        if os.access(place, os.W_OK) and _offers_memory(place, version):
            _reap(place)
            return place, version
    return None


def _offers_memory(place: Path, version: int) -> bool:
    if version == 1:
        return (place / "memory.limit_in_bytes").exists()
    try:
        return "memory" in (place / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False


def _reap(place: Path) -> None:
    for folder in place.glob(f"{_PREFIX}*"):
        pid, _, rest = folder.name.removeprefix(_PREFIX).partition("-")
        start, _, _ = rest.partition("-")
        if pid.isdigit() and start_time(int(pid)) != start:
            with suppress(OSError):
                folder.rmdir()


def _remove(folder: Path) -> None:
    for _ in range(_REMOVAL_TRIES):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:  # the last process is still on its way out
            time.sleep(0.005)
        else:
            return
