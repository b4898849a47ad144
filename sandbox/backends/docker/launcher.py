"""Launcher: the first process of a container. It runs Parley's commands, one after another.

The launcher is trusted, uses only the standard library (Python 3.9 or newer), and ends when its
connection closes. A command gets its own pipes for output and report. The launcher sends the
command's output in one message on its own standard output, which no command ever holds.

Commands run as the launcher's user, but cannot interfere with it: the kernel lets no process of a
pid namespace kill the first process, a process that is not dumpable shows neither memory nor
descriptors, and the container's system-call filter denies ptrace and limits set on other processes.
"""

from __future__ import annotations

import ctypes
import glob
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sandbox.backends.docker.messages import pack, receive
from sandbox.backends.docker.scratch import cleared, write_files
from sandbox.host.bounded_output import BoundedOutput

LONGEST_REPORT = 1 << 19
LONGEST_REQUEST = 1 << 30
_CHUNK = 65536
_LIBC = ctypes.CDLL(None)
_PR_SET_DUMPABLE = 4
_MFD_CLOEXEC = 1
_FIRST_TO_DIE = "1000"
_MEMORY_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


def _package_folders() -> list[str]:
    """Return the folders of packages of the image's Pythons."""
    roots = sorted({"/usr", "/usr/local", sys.prefix, sys.base_prefix})
    folders = {folder for root in roots for folder in glob.glob(f"{root}/lib/python3*/*-packages")}
    return sorted(
        folder for folder in folders if os.path.isdir(folder) and not os.path.islink(folder)
    )


def main() -> None:
    """Serve commands until the connection ends."""
    _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    requests, replies = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), 0)
    os.dup2(2, 1)
    _send(replies, pack({"ready": True, "python": sys.executable, "packages": _package_folders()}))
    used = False
    while True:
        try:
            head, blobs = receive(lambda size: _read_exactly(requests, size), LONGEST_REQUEST)
        except EOFError:
            os._exit(0)
        if used and not cleared(head["to_empty"], keep_kernel=head["keep_kernel"]):
            _send(replies, pack({"dirty": True}))
            continue
        used = True
        _serve(head, blobs, requests, replies, wake)


def _serve(
    head: dict[str, Any], blobs: list[bytes], requests: int, replies: int, wake: int
) -> None:
    killed_before = _memory_kills()
    output = [os.pipe() for _ in range(3)]
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        _become(head, blobs, [writing for _, writing in output])
    blobs.clear()  # Files in shared memory count against the command's memory.
    _send(replies, pack({"started": True}))
    output_bounds = BoundedOutput(head["output_kb"]), BoundedOutput(head["output_kb"])
    adders = (output_bounds[0].add, output_bounds[1].add, _Report(replies).add)
    streams = dict(zip((reading for reading, _ in output), adders))  # noqa: B905 - an image's Python may be older than `strict`
    for _, writing in output:
        os.close(writing)
    ending, overran = _follow(child, streams, begun + head["wall_s"], requests, wake)
    _end_all()
    status, usage = ending or _wait_for(child)
    _reap_rest()
    answer = {
        "returncode": os.waitstatus_to_exitcode(status),
        "overran": overran,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "wall_s": time.monotonic() - begun,
        "memory_kills": _memory_kills() - killed_before,
    }
    for reading, add in streams.items():
        while _take(reading, add):  # All writers are dead, so the loop ends.
            pass
        os.close(reading)
    _send(replies, pack(answer, *(stream.value() for stream in output_bounds)))


class _Report:
    """Sender of the command's report.

    It sends each piece at once, so nothing is lost if the container ends.
    """

    def __init__(self, replies: int) -> None:
        self._replies, self._room = replies, LONGEST_REPORT

    def add(self, data: bytes) -> None:
        data = data[: self._room]
        self._room -= len(data)
        if data:
            _send(self._replies, pack({"report": True}, data))


def _become(head: dict[str, Any], blobs: list[bytes], writing: list[int]) -> None:
    """Set limits, files and descriptors in the child, then execute the command in its place."""
    try:
        os.setsid()
        _be_first_to_die()
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        _limit(head["bounds"], "cpu", "fsize", "nofile", "core")
        os.chdir(head["start"])
        stdin, *contents = blobs
        for target, descriptor in enumerate((_as_file(stdin), *writing[:2])):
            os.dup2(descriptor, target)
        os.set_inheritable(writing[2], True)
        environment = {**head["environment"], head["report_variable"]: str(writing[2])}
        write_files(head["files"], contents)
    except (OSError, MemoryError, RecursionError) as error:
        os.write(
            2, f"the command's files could not be put in place: {error}\n".encode(errors="replace")
        )
        os._exit(73)
    try:
        _limit(head["bounds"], "as")
        os.execvpe(head["argv"][0], head["argv"], environment)
    except (OSError, ValueError, MemoryError) as error:
        os.write(2, f"{head['argv'][0]}: {error}\n".encode(errors="replace"))
        os._exit(126 if isinstance(error, PermissionError) else 127)


def _be_first_to_die() -> None:
    """Make the kernel kill the command before the launcher if memory runs out.

    This process must be dumpable for a moment. No other process runs meanwhile.
    """
    _LIBC.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(_FIRST_TO_DIE)


def _limit(bounds: dict[str, list[int]], *names: str) -> None:
    for name in names:
        soft, hard = bounds[name]
        resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (soft, hard))


def _as_file(content: bytes) -> int:
    if not content:
        return os.open(os.devnull, os.O_RDONLY)
    # libc's function: some Pythons (conda's) are built without os.memfd_create.
    descriptor = _LIBC.memfd_create(b"stdin", _MFD_CLOEXEC)
    if descriptor < 0:
        raise OSError("memfd_create failed")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _follow(
    child: int,
    streams: dict[int, Callable[[bytes], None]],
    deadline: float,
    requests: int,
    wake: int,
) -> tuple[tuple[int, resource.struct_rusage] | None, bool]:
    """Wait until the command has ended or its wall-clock limit has passed.

    Returns:
        The command's ending and False, or None and True if the limit has passed.
    """
    poll = select.poll()
    for descriptor in (*streams, requests, wake):
        poll.register(descriptor, select.POLLIN)
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return None, True
        for descriptor, _ in poll.poll(left_s * 1000 + 1):
            # Parley sends nothing while a command runs, so the connection has closed.
            if descriptor == requests:
                os._exit(0)
            elif descriptor == wake:
                os.read(wake, _CHUNK)
                ending = _reaped(child)
                if ending is not None:
                    return ending, False
            elif not _take(descriptor, streams[descriptor]):
                poll.unregister(descriptor)


def _take(descriptor: int, add: Callable[[bytes], None]) -> bool:
    data = os.read(descriptor, _CHUNK)
    add(data)
    return bool(data)


def _reaped(child: int) -> tuple[int, resource.struct_rusage] | None:
    """Collect ended processes, and return how the command ended if it is among them."""
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == child:
            return status, usage
        if pid == 0:
            return None


def _wait_for(child: int) -> tuple[int, resource.struct_rusage]:
    _, status, usage = os.wait4(child, 0)
    return status, usage


def _end_all() -> None:
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def _reap_rest() -> None:
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _memory_kills() -> int:
    """Return how many processes the kernel has killed here because memory ran out.

    Return 0 if the number cannot be read.
    """
    for path in _MEMORY_EVENTS:
        try:
            with open(path) as file:
                return next(
                    (int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0
                )
        except OSError:  # The file belongs to the other version of cgroups.
            continue
    return 0


def _read_exactly(descriptor: int, size: int) -> bytes:
    pieces: list[bytes] = []
    while size:
        piece = os.read(descriptor, min(size, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _send(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
