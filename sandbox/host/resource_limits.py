"""Resource limits of commands: a memory cgroup around a session, and `prlimit` prefixes.

The cgroup bounds the total memory of a session. If this process may not make one, only the memory
of each process is bounded. The name of a group contains the pid and start time of the process that
made it, so that the next Parley process can remove the groups of a killed one.

The prefix `prlimit` sets the limits of each process of one command, because a parent with threads
cannot safely set limits between fork and exec.
"""

import functools
import itertools
import math
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from sandbox.host.abandoned import start_time
from schemas.errors import HostShortage, SandboxUnavailable
from schemas.run import Limits

_PREFIX = "parley-"
_counter = itertools.count()
_REMOVAL_ATTEMPTS = 50
_REAPING_S = 1.0
_SMALL = 64 << 20
_LONGEST_FILE = 4096
"""Upper bound of the bytes in a file of a group."""
_NEAR = 15 / 16
"""Minimum share of its limit at which a group may have run out of memory. The kernel counts memory
in batches, so the recorded peak may lack the last batch.
"""


@dataclass(frozen=True)
class MemoryCgroup:
    """Existing memory cgroup. `version` is 1 or 2."""

    folder: Path
    version: int

    def add(self, pid: int) -> None:
        """Move a process into the group. Its later children are in the group, too.

        Raises:
            OSError: the process cannot be moved.
        """
        (self.folder / "cgroup.procs").write_text(str(pid))

    def limit(self, limit_bytes: int) -> None:
        """Limit the total memory of the group's processes, including swap.

        Raises:
            OSError: the limit cannot be set.
        """
        hard, swap = (
            ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
            if self.version == 1
            else ("memory.max", "memory.swap.max")
        )
        bound_with_swap = str(limit_bytes) if self.version == 1 else "0"
        # The limits of memory and of memory with swap are set twice: if the limit grows, the one
        # with swap must be set first, and if it shrinks, the other.
        for last in (False, True):
            with suppress(OSError):  # The file is missing if the kernel does not account swap.
                (self.folder / swap).write_text(bound_with_swap)
            try:
                (self.folder / hard).write_text(str(limit_bytes))
            except OSError:
                if last:
                    raise

    def kills(self) -> int:
        """Return how many processes of the group the kernel has killed so far."""
        return self._counted(
            "memory.oom_control" if self.version == 1 else "memory.events", "oom_kill"
        )

    def ran_out(self, killed_before: int) -> bool:
        """Return True if the kernel has killed further processes because of the group's own limit.

        Args:
            killed_before: number of killed processes before the run.

        Raises:
            HostShortage: the kernel has killed further processes although the group has not reached
            its limit: a parent group or the whole machine was out of memory.
        """
        if self.kills() <= killed_before:
            return False
        if not self.reached_its_limit():
            raise HostShortage(
                "the kernel killed a sandboxed program that was within its own memory limit: the "
                "machine, or a control group that Parley runs in, was out of memory. Free some, or "
                "run fewer programs at once"
            )
        return True

    def reached_its_limit(self) -> bool:
        """Return True if the group has ever reached its own limit, or if that is uncertain."""
        if self.version == 2:
            return self._counted("memory.events", "max") > 0
        return self._reached("memory") or self._reached("memory.memsw")

    def _reached(self, counter: str) -> bool:
        """Return True if a version 1 group has reached its limit. False without such a limit.

        Current kernels do not increment the failure counter if they kill a process of the group to
        free memory. So a peak usage near the limit also counts as reached.
        """
        try:
            failures = int(self._text(f"{counter}.failcnt"))
        except FileNotFoundError:
            return False
        peak = int(self._text(f"{counter}.max_usage_in_bytes"))
        bound = int(self._text(f"{counter}.limit_in_bytes"))
        return failures > 0 or peak >= bound * _NEAR

    def _counted(self, file: str, counter: str) -> int:
        for line in self._text(file).splitlines():
            key, _, value = line.partition(" ")
            if key == counter:
                return int(value)
        return 0

    def _text(self, file: str) -> str:
        # Each run of a program reads eight files. `Path.read_text` takes twice as long.
        descriptor = os.open(f"{self.folder}/{file}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, _LONGEST_FILE).decode()
        finally:
            os.close(descriptor)


@contextmanager
def memory_cgroup(limit_bytes: int) -> Iterator[MemoryCgroup | None]:
    """Make a new cgroup with a memory limit that includes swap, and remove it after the block.

    If no cgroup can be made, None is yielded.
    """
    group = _make(limit_bytes)
    try:
        yield group
    finally:
        if group is not None:
            _remove(group.folder)


def describe_memory_bound() -> str:
    """Describe in one line how this machine bounds a program's memory."""
    with memory_cgroup(_SMALL) as group:
        if group is not None:
            return (
                f"a memory cgroup (version {group.version}) bounds all processes of a program "
                "together"
            )
    return (
        "resource limits bound each process of a program, not their sum, because Parley is not "
        "allowed to make a memory cgroup below its own. As root it usually is"
    )


def remove_abandoned() -> None:
    """Remove the memory cgroups of killed Parley processes.

    A process that makes a group removes them, too. Call this in a process that makes none.
    """
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
    """Return the folder and version of this process's memory cgroup, if it can have children.

    The first call in a process searches for it, and removes the groups of killed processes.
    """
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
    """Try repeatedly to remove all groups of killed Parley processes below a folder.

    Processes in the groups of a killed Parley process may need some time to end.
    """
    left = [folder for folder in place.glob(f"{_PREFIX}*") if _is_abandoned(folder)]
    deadline = time.monotonic() + _REAPING_S
    while left := [folder for folder in left if not _is_removed(folder)]:
        if time.monotonic() > deadline:
            return
        time.sleep(0.005)


def _is_abandoned(folder: Path) -> bool:
    pid, _, rest = folder.name.removeprefix(_PREFIX).partition("-")
    return pid.isdigit() and start_time(int(pid)) != rest.partition("-")[0]


def _is_removed(folder: Path) -> bool:
    """Try to remove a group. A group that still contains processes is not removed."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _remove(folder: Path) -> None:
    for _ in range(_REMOVAL_ATTEMPTS):
        if _is_removed(folder):
            return
        time.sleep(0.005)  # The last process is still ending.


MIB = 1024 * 1024
_LOWEST_PRIORITY = 19
_niceness: ContextVar[int] = ContextVar("parley_niceness", default=0)
"""Niceness of the programs that a thread starts, passed like `sandbox.host.slots._is_alone`."""


@contextmanager
def low_priority(is_low: bool = True) -> Iterator[None]:
    """Let this thread's programs use only processor time that no other process wants.

    The backend `docker`, whose daemon starts the programs, ignores this.
    """
    token = _niceness.set(_LOWEST_PRIORITY if is_low else 0)
    try:
        yield
    finally:
        _niceness.reset(token)


def niceness() -> int:
    """Return the niceness at which to run a program of this thread."""
    return _niceness.get()


def bounds(limits: Limits) -> dict[str, tuple[int, int]]:
    """Return soft and hard limits by the names of `prlimit`'s options. Sizes are in bytes.

    CPU time is counted per process in whole seconds, rounded up. At the limit the process gets
    SIGXCPU, one second later SIGKILL.
    """
    cpu = math.ceil(limits.cpu_s)
    equal = {
        "as": limits.address_space_mb * MIB,
        "fsize": limits.file_mb * MIB,
        "nofile": limits.open_files,
        "core": 0,
        "nproc": limits.processes,
    }
    return {"cpu": (cpu, cpu + 1), **{name: (bound, bound) for name, bound in equal.items()}}


def prlimit_argv(limits: Limits, *, count_processes: bool) -> tuple[str, ...]:
    """Return the command prefix that sets limits and niceness, and then becomes the command.

    Args:
        limits: limits to set.
        count_processes: whether to limit processes. Pass False if the kernel would count other
            processes of the user, too.

    Raises:
        SandboxUnavailable: `prlimit` is missing.
    """
    options = [
        f"--{n}={soft}:{hard}"
        for n, (soft, hard) in bounds(limits).items()
        if count_processes or n != "nproc"
    ]
    low = (required_tool("nice"), "-n", str(niceness())) if niceness() else ()
    return (*low, required_tool("prlimit"), *options, "--")


def required_tool(name: str) -> str:
    """Return the absolute path of a tool of util-linux.

    Raises:
        SandboxUnavailable: the tool is not installed.
    """
    path = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
    if path is None:
        raise SandboxUnavailable(
            f"the sandbox needs `{name}`, which is not in /usr/bin or /bin: install util-linux"
        )
    return path
