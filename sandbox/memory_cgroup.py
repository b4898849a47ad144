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
from schemas.errors import HostShortage

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

    def limit(self, limit_bytes: int) -> None:
        """Bound what all its processes use together, swap included. Raises OSError."""
        hard, swap = (
            ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes") if self.version == 1 else ("memory.max", "memory.swap.max")
        )
        bound_with_swap = str(limit_bytes) if self.version == 1 else "0"
        for last in (False, True):  # of the two, the larger one must go first, and which that is depends on the way
            with suppress(OSError):  # absent where the kernel does not account swap
                (self.folder / swap).write_text(bound_with_swap)
            try:
                (self.folder / hard).write_text(str(limit_bytes))
            except OSError:
                if last:
                    raise

    def kills(self) -> int:
        """How many processes the kernel has killed here because their group's own limit was reached.

        Raises:
            HostShortage: it killed some although that limit was never reached: a group above or the whole machine was short.
        """
        killed = self._counted("memory.oom_control" if self.version == 1 else "memory.events", "oom_kill")
        if killed and not self.reached_its_limit():
            raise HostShortage(
                "the kernel killed a sandboxed program that was within its own memory limit: the machine, or a control group that"
                " Parley runs in, was out of memory. Free some, or run fewer programs at once"
            )
        return killed

    def reached_its_limit(self) -> bool:
        """Whether memory was short because of this group's own limit, ever since it was made."""
        if self.version == 2:
            return self._counted("memory.events", "max") > 0
        counters = (self.folder / name for name in ("memory.failcnt", "memory.memsw.failcnt"))
        return any(int(counter.read_text()) > 0 for counter in counters if counter.exists())

    def _counted(self, file: str, wanted: str) -> int:
        for line in (self.folder / file).read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == wanted:
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
    group = MemoryCgroup(folder, version)
    try:
        group.limit(limit_bytes)
    except OSError:
        _remove(folder)
        return None
    return group


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
