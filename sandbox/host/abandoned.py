"""Removal of sandboxes whose supervisor died while bwrap was setting them up.

bwrap asks the kernel to end it when its parent ends, and bwrap's child asks to be ended with bwrap,
but each of them only some milliseconds after it has started. If the supervisor is killed within
that time, a process remains that no other process ends or limits. Therefore the arguments of each
bwrap contain a mark of its supervisor (as the name of a variable to unset, which has no effect),
and the next Parley process searches for marks. A mark contains the pid namespace, because a host
sees the processes of its containers, in which the same pids refer to other processes.
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
    """Return the kernel ticks from boot to the start of a process.

    The text is empty if there is no such process, or if it is a zombie.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def new_mark() -> str:
    """Return a new mark: a text that identifies this process and one sandbox of it."""
    owner = f"{pid_namespace()}_{os.getpid()}_{start_time(os.getpid())}"
    return f"PARLEY_SUPERVISOR_{owner}_{next(_counter)}"


def pid_namespace() -> int:
    """Return the number of the pid namespace of this process."""
    return os.stat("/proc/self/ns/pid").st_ino


def mark_arguments(mark: str) -> tuple[str, ...]:
    """Return arguments for bwrap that contain a mark."""
    return ("--unsetenv", mark)


def end_marked(mark: str) -> None:
    """Kill the remaining processes of the sandbox whose bwrap has this mark."""
    _kill(lambda match: match.group() == mark)


@functools.cache
def end_abandoned() -> None:
    """Kill the sandboxes of supervisors that have died. Later calls in a process do nothing."""
    here = str(pid_namespace())
    _kill(
        lambda match: match["namespace"] == here and start_time(int(match["pid"])) != match["start"]
    )


def _kill(is_meant: Callable[["re.Match[str]"], bool]) -> None:
    for pid, match in _marked():
        if is_meant(match):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _marked() -> "Iterator[tuple[int, re.Match[str]]]":
    """Yield the pid and mark of every bwrap with a mark.

    The first process of bwrap's pid namespace has the same arguments. If it is killed, all
    processes of the namespace end.
    """
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            arguments = Path(entry.path, "cmdline").read_bytes().split(b"\0")
            if b"--unsetenv" in arguments and arguments[0].endswith(b"bwrap"):
                match = _MARK.fullmatch(
                    arguments[arguments.index(b"--unsetenv") + 1].decode("ascii", "replace")
                )
                if match is not None:
                    yield int(entry.name), match
