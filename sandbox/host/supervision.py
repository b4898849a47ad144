"""Supervision of one command until it ends: it limits output and wall-clock time.

The backends `bubblewrap` and `none` run their commands through it.
"""

import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import FileIO

from sandbox.host.bounded_output import BoundedOutput
from sandbox.interface import Completed
from schemas.errors import SandboxUnavailable
from schemas.run import Limits

_CHUNK = 65536
_REPORT_KB = 2048
_DRAIN_S = 0.3
_GRACE_S = 10.0
_POLL_S = 0.25


@dataclass(frozen=True)
class Command:
    """Command to start. The process inherits `open_fds` and the writing ends of the channels."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    limits: Limits
    stdin: bytes = b""
    open_fds: tuple[int, ...] = ()
    cwd: str | None = None
    new_session: bool = False
    on_status: Callable[[bytes], None] | None = None
    """Function called with each piece of the status stream."""
    is_over: Callable[[], bool] | None = None
    """Function called several times a second. True ends the command."""


class Channels:
    """Two pipes, made before the command's argv is known. The command writes, Parley reads."""

    def __init__(self, stack: ExitStack) -> None:
        self.report, self.report_end = open_pipe(stack)
        self.status, self.status_end = open_pipe(stack)

    def close_writing_ends(self) -> None:
        """Close Parley's writing ends, so that the pipes end when the command ends."""
        self.report_end.close()
        self.status_end.close()


@dataclass
class Ending:
    """Ending of the started process, as the kernel reports it."""

    returncode: int
    overran: bool
    """True if Parley ended the process at the wall-clock limit."""
    cpu_s: float
    wall_s: float
    stdout: bytes
    stderr: bytes
    report: bytes


@dataclass
class Streams:
    """Output of a command that was read so far."""

    stdout: BoundedOutput
    stderr: BoundedOutput
    report: BoundedOutput = field(default_factory=lambda: BoundedOutput(_REPORT_KB))


def open_pipe(stack: ExitStack) -> tuple[FileIO, FileIO]:
    """Return the reading and the writing end of a new pipe.

    The ends are file objects, so that closing one twice does not close another thread's descriptor.
    """
    reading, writing = os.pipe()
    return stack.enter_context(FileIO(reading, "r")), stack.enter_context(FileIO(writing, "w"))


def memory_file(name: str, content: bytes, stack: ExitStack) -> int:
    """Return the descriptor of an anonymous file with this content.

    The stack closes the descriptor.
    """
    descriptor = os.memfd_create(name)
    stack.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def completed(
    ending: Ending, limits: Limits, *, cpu_s: float | None, out_of_memory: bool = False
) -> Completed:
    """Convert an ending to the result for callers.

    A process killed by SIGXCPU, or by SIGKILL when its CPU time may have been used up, counts as
    timed out.

    Args:
        ending: ending of the process.
        limits: limits of the command.
        cpu_s: CPU seconds; None if the kernel does not report them. Wall-clock seconds are then
            their upper bound.
        out_of_memory: True if the kernel killed processes of the command because memory ran out.
    """
    code = ending.returncode
    ended_by = -code if code < 0 else code - 128 if 128 < code <= 128 + signal.NSIG else None
    may_have_used = ending.wall_s if cpu_s is None else cpu_s
    used_up = ended_by == signal.SIGKILL and may_have_used >= limits.cpu_s and not out_of_memory
    return Completed(
        exit_code=None if ended_by else code,
        signal=ended_by,
        timed_out=ending.overran or ended_by == signal.SIGXCPU or used_up,
        out_of_memory=out_of_memory,
        stdout=ending.stdout,
        stderr=ending.stderr,
        report=ending.report,
        cpu_s=cpu_s,
        wall_s=ending.wall_s,
    )


def supervise(
    command: Command, channels: Channels, stack: ExitStack, kill: Callable[[int], None]
) -> Ending:
    """Run the command to its end or its wall-clock limit.

    Args:
        command: command to run.
        channels: report and status pipes of the command.
        stack: stack that closes the files opened for the command.
        kill: function called with the started process's pid when the command must end. It must end
            the whole process tree.

    Raises:
        SandboxUnavailable: the command cannot be started, or does not die.
    """
    begun = time.monotonic()
    process = _start(command, channels, stack)
    finished = False
    try:
        channels.close_writing_ends()
        streams = Streams(
            BoundedOutput(command.limits.output_kb), BoundedOutput(command.limits.output_kb)
        )
        overran = _follow(process, command, channels, streams, begun + command.limits.wall_s, kill)
        returncode, cpu_s = _reap(process)
        finished = True
    finally:
        if not finished:
            kill(process.pid)
            process.kill()
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    return Ending(
        returncode=returncode,
        overran=overran,
        cpu_s=cpu_s,
        wall_s=time.monotonic() - begun,
        stdout=streams.stdout.value(),
        stderr=streams.stderr.value(),
        report=streams.report.value(),
    )


def _start(command: Command, channels: Channels, stack: ExitStack) -> "subprocess.Popen[bytes]":
    try:
        stdin = (
            memory_file("parley-stdin", command.stdin, stack)
            if command.stdin
            else subprocess.DEVNULL
        )
        return subprocess.Popen(
            command.argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(command.environment),
            cwd=command.cwd,
            pass_fds=(
                *command.open_fds,
                channels.report_end.fileno(),
                channels.status_end.fileno(),
            ),
            start_new_session=command.new_session,
            bufsize=0,
        )
    except OSError as error:
        raise SandboxUnavailable(
            f"{command.argv[0]}: cannot be started ({error.strerror}); see `parley doctor`"
        ) from error


def _follow(
    process: "subprocess.Popen[bytes]",
    command: Command,
    channels: Channels,
    streams: Streams,
    deadline: float,
    kill: Callable[[int], None],
) -> bool:
    assert process.stdout is not None
    assert process.stderr is not None
    ended = os.pidfd_open(process.pid)
    readers = {
        process.stdout.fileno(): streams.stdout.add,
        process.stderr.fileno(): streams.stderr.add,
        channels.report.fileno(): streams.report.add,
        channels.status.fileno(): command.on_status or (lambda _: None),
    }
    try:
        return follow(ended, readers, deadline, lambda: kill(process.pid), command.is_over)
    finally:
        os.close(ended)


def follow(
    ended: int,
    readers: Mapping[int, Callable[[bytes], None]],
    deadline: float,
    kill: Callable[[], None],
    is_over: Callable[[], bool] | None = None,
) -> bool:
    """Read streams until a process has ended and all its streams have ended.

    Args:
        ended: pidfd of the process.
        readers: map from descriptor to the function to call with each piece of its data.
        deadline: time by `time.monotonic()`.
        kill: function that ends the whole process tree. It is also called after the process's own
            end.
        is_over: function called several times a second. True moves the deadline to now.

    Returns:
        True if the wall-clock limit ended the process.

    Raises:
        SandboxUnavailable: the process does not die.
    """
    overran = exited = False
    waiting = select.poll()
    for descriptor in (ended, *readers):
        waiting.register(descriptor, select.POLLIN)
    under_way = {ended, *readers}
    while under_way:
        left_s = max(0.0, deadline - time.monotonic())
        pause_s = left_s if is_over is None else min(left_s, _POLL_S)
        for descriptor, _ in waiting.poll(math.ceil(1000 * pause_s)):
            if descriptor == ended:
                exited, deadline = True, time.monotonic() + _DRAIN_S
                kill()
            elif data := os.read(descriptor, _CHUNK):
                readers[descriptor](data)
                continue
            waiting.unregister(descriptor)
            under_way.remove(descriptor)
        if is_over is not None and not (exited or overran) and is_over():
            deadline = time.monotonic()
        if time.monotonic() < deadline:
            continue
        if exited:  # A process outside Parley's reach holds a stream open.
            break
        if overran:
            raise SandboxUnavailable(
                f"a sandboxed program did not die within {_GRACE_S:g} s of being killed"
            )
        overran, deadline = True, time.monotonic() + _GRACE_S
        kill()
    return overran


def _reap(process: "subprocess.Popen[bytes]") -> tuple[int, float]:
    """Wait for an ended process. Return its exit status (as `Popen.returncode`) and CPU seconds.

    The CPU seconds include those of all waited-for descendants.
    """
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except ChildProcessError as error:
        raise SandboxUnavailable(
            "another part of this process collected the exit status of a sandboxed program "
            "(SIGCHLD ignored?)"
        ) from error
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime
