"""Ends sandboxes whose supervisor died while bwrap was setting them up.

bwrap asks the kernel to end it with its parent, and its child with itself, but each only once it runs: a parent that is killed
within those milliseconds leaves a process that nobody ends and whose wall clock nobody watches. So each bwrap carries its
supervisor's mark in its arguments (to unset a variable that is not set does nothing), and the next Parley looks for it. The pid
namespace is part of the mark: a container's processes are seen from its host, where their pids mean other processes.
"""

import functools
import itertools
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

_MARK = re.compile(r"PARLEY_SUPERVISOR_(?P<namespace>\d+)_(?P<pid>\d+)_(?P<start>\d+)_\d+")
_counter = itertools.count()


def start_time(pid: int) -> str:
    """Kernel ticks from boot to the start of a process; empty where there is none, or it has ended and was not waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def new_mark() -> str:
    """Names one sandbox of this process."""
    return f"PARLEY_SUPERVISOR_{pid_namespace()}_{os.getpid()}_{start_time(os.getpid())}_{next(_counter)}"


def pid_namespace() -> int:
    """Number of the pid namespace that this process is in."""
    return os.stat("/proc/self/ns/pid").st_ino


def mark_arguments(mark: str) -> tuple[str, ...]:
    """bwrap's arguments that carry a mark."""
    return ("--unsetenv", mark)


def end_marked(mark: str) -> None:
    """Kill the processes that are left of one sandbox."""
    _kill(lambda found: found.group() == mark)


@functools.cache
def end_abandoned() -> None:
    """Kill the sandboxes of supervisors that have died. Looks once in each process."""
    here = str(pid_namespace())
    _kill(
        lambda found: found["namespace"] == here and start_time(int(found["pid"])) != found["start"]
    )


def _kill(is_meant: Callable[["re.Match[str]"], bool]) -> None:
    for pid, found in _marked():
        if is_meant(found):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _marked() -> "Iterator[tuple[int, re.Match[str]]]":
    """Every bwrap with a mark; the first process of its pid namespace is one, too, and takes all others with it."""
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            arguments = Path(entry.path, "cmdline").read_bytes().split(b"\0")
            if b"--unsetenv" in arguments and arguments[0].endswith(b"bwrap"):
                found = _MARK.fullmatch(
                    arguments[arguments.index(b"--unsetenv") + 1].decode("ascii", "replace")
                )
                if found is not None:
                    yield int(entry.name), found
