"""Sandbox `zygote` (the default): bubblewrap's isolation without a start of Python for each run.

A zygote is a bubblewrap in which Python runs with its modules already imported. Each run is a fork
of that Python, in its own mount, pid and IPC namespaces, with fresh /tmp, /dev/shm, /box and /proc,
with its own session and limits, without privileges, and under the same system-call filter. If a run
has sent no network packet, the next run uses its network namespace, which is connected to nothing.
README.md lists the other differences.
"""

import importlib.metadata
import marshal
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.backends.bubblewrap.tool import HARNESS_DIRECTORY, bwrap_version
from sandbox.backends.zygote.pool import Lease, kind
from sandbox.backends.zygote.process import RunEnding, Zygote, ZygoteGone
from sandbox.host.bounded_output import BoundedOutput
from sandbox.host.file_archive import checked_name
from sandbox.host.python_environment import environment_digest, placed
from sandbox.host.resource_limits import MIB, bounds, niceness
from sandbox.host.slots import hold_slot, sandbox_fault, uid_of
from sandbox.host.supervision import (
    Channels,
    Ending,
    Streams,
    completed,
    follow,
    memory_file,
    open_pipe,
)
from sandbox.interface import Completed, Session
from schemas.errors import HostShortage, SandboxUnavailable
from schemas.run import Limits

_READY = b"ready"
_LONGEST_STATUS = 4096


class ZygoteSandbox(BubblewrapSandbox):
    """Sandbox that runs each command in a fork of a prepared Python, isolated as in bubblewrap.

    A command `({python}, "-S", "-s", "-P", {harness}/NAME.py)` runs that script in the forked
    Python. For any other command the fork executes a new program. Commands in a workspace's folder
    run in a bubblewrap each: a shell does not benefit from a prepared Python. See
    `sandbox.interface.Sandbox` and `sandbox.workspace.interface.HoldsWorkspaces`.

    Args:
        preload: modules that are already imported when a run starts, such as `numpy`. Missing
            modules are skipped.
        options: options of `BubblewrapSandbox`.
    """

    name = "zygote"
    preloads = True

    def __init__(self, *, preload: tuple[str, ...] = (), **options: Any) -> None:
        super().__init__(**options)
        self._preload = tuple(preload)

    def fingerprint(self) -> str:
        version = bwrap_version(self._bwrap)
        loaded = (
            ", ".join(f"{name} {_version(name, self.packages)}" for name in self._preload)
            or "nothing"
        )
        return (
            f"zygote in bubblewrap {version}, {loaded} loaded; {environment_digest(self.packages)}"
        )

    @contextmanager
    def session(self, limits: Limits, *, keep_files: bool = False) -> Iterator[Session]:
        bwrap = self._bwrap
        with hold_slot(self._slots, self._slot_directory, limits.memory_mb) as slot:
            uid = uid_of(slot, self._slot_directory)
            lease = Lease(kind(bwrap, uid, self._preload, self.packages))
            try:
                if keep_files:
                    lease.keep_directory(limits.tmp_mb * MIB)
                yield ZygoteSession(lease, limits, uid, keep_files)
                lease.give_back(2 * self._slots)
            finally:
                lease.discard()


class ZygoteSession:
    """Session of the zygote. See `sandbox.interface.Session`."""

    def __init__(self, lease: Lease, limits: Limits, uid: int, keep_files: bool) -> None:
        self._lease, self._limits, self._uid, self._keep_files = lease, limits, uid, keep_files

    def run(
        self,
        argv: tuple[str, ...],
        *,
        files: Mapping[str, bytes] | None = None,
        stdin: bytes = b"",
        limits: Limits | None = None,
    ) -> Completed:
        limits = limits or self._limits
        request = marshal.dumps(
            {
                "argv": tuple(placed(item, HARNESS_DIRECTORY) for item in argv),
                "files": {checked_name(name): content for name, content in (files or {}).items()},
                "limits": bounds(limits),
                "niceness": niceness(),
                "tmp_bytes": limits.tmp_mb * MIB,
                "keeps_directory": self._keep_files,
                "uid": self._uid,
            }
        )
        try:
            with ExitStack() as stack:
                return _Run(self._lease, limits, stack).to_its_end(request, stdin)
        except OSError as error:
            self._lease.discard()
            raise SandboxUnavailable(
                f"zygote: {error}; the host may be out of memory or descriptors"
            ) from error
        except BaseException:  # Also after a signal, because the run may continue in the sandbox.
            self._lease.discard()
            raise


class _Run:
    """One command: its pipes, its fork and its ending."""

    def __init__(self, lease: Lease, limits: Limits, stack: ExitStack) -> None:
        self._lease, self._limits, self._stack = lease, limits, stack
        self._channels = Channels(stack)
        self._stdout, self._stdout_end = open_pipe(stack)
        self._stderr, self._stderr_end = open_pipe(stack)
        self._status = b""

    def to_its_end(self, request: bytes, stdin: bytes) -> Completed:
        descriptors = self._descriptors(request, stdin)
        killed_before = 0

        def start(zygote: Zygote) -> int:
            nonlocal killed_before
            zygote.limit_memory(self._limits.memory_mb * MIB)
            killed_before = zygote.memory_kills()
            return zygote.start_run(descriptors)

        zygote, first = self._lease.attempt(start)
        begun = time.monotonic()  # The start of a zygote does not count as part of the run.
        self._stack.callback(os.close, first)
        streams, overran = self._follow(first, begun)
        ended = _ended(zygote)
        out_of_memory = zygote.ran_out_of_memory(killed_before)
        if ended is None:
            self._lease.discard()
            if not out_of_memory:
                raise HostShortage(
                    "zygote: ended unexpectedly during a run; the host may be out of memory"
                )
            # The run was out of memory, and the kernel killed its zygote with it.
            ended = RunEnding(-signal.SIGKILL, 0.0, 0, 0)
        if self._status != _READY and not overran:
            if not self._status:
                raise HostShortage(
                    "zygote: a run was killed before it was isolated; the host may be out of memory"
                )
            status = self._status.decode(errors="replace")
            raise sandbox_fault(
                f"zygote: a run could not be isolated: {status}. `--sandbox bubblewrap` needs "
                "fewer privileges",
                status,
            )
        ending = Ending(
            returncode=ended.returncode,
            overran=overran,
            cpu_s=ended.cpu_s,
            wall_s=time.monotonic() - begun,
            stdout=streams.stdout.value(),
            stderr=streams.stderr.value(),
            report=streams.report.value(),
        )
        return completed(ending, self._limits, cpu_s=ended.cpu_s, out_of_memory=out_of_memory)

    def _descriptors(self, request: bytes, stdin: bytes) -> tuple[int, ...]:
        """Return the descriptors in the order that the zygote expects.

        Only the run reads their content.
        """
        if stdin:
            input_file = memory_file("parley-stdin", stdin, self._stack)
        else:
            input_file = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            self._stack.callback(os.close, input_file)
        ends = (self._stdout_end, self._stderr_end, self._channels.report_end)
        request_file = memory_file("parley-request", request, self._stack)
        return (
            input_file,
            *(end.fileno() for end in ends),
            request_file,
            self._channels.status_end.fileno(),
        )

    def _follow(self, first: int, begun: float) -> tuple[Streams, bool]:
        self._channels.close_writing_ends()
        self._stdout_end.close()
        self._stderr_end.close()
        streams = Streams(
            BoundedOutput(self._limits.output_kb), BoundedOutput(self._limits.output_kb)
        )
        readers = {
            self._stdout.fileno(): streams.stdout.add,
            self._stderr.fileno(): streams.stderr.add,
            self._channels.report.fileno(): streams.report.add,
            self._channels.status.fileno(): self._hear_status,
        }
        overran = follow(first, readers, begun + self._limits.wall_s, lambda: _kill(first))
        return streams, overran

    def _hear_status(self, data: bytes) -> None:
        self._status = (self._status + data)[:_LONGEST_STATUS]


def _ended(zygote: Zygote) -> RunEnding | None:
    try:
        return zygote.finish_run()
    except ZygoteGone:
        return None


def _kill(first: int) -> None:
    """Kill the first process of a pid namespace, and with it all others."""
    with suppress(ProcessLookupError):  # The process has ended by itself.
        signal.pidfd_send_signal(first, signal.SIGKILL)


def _version(module: str, folders: tuple[str, ...]) -> str:
    distributions = importlib.metadata.distributions
    distribution = next(
        iter(
            distributions(name=module, path=list(folders))
            if folders
            else distributions(name=module)
        ),
        None,
    )
    return "(no version)" if distribution is None else distribution.version
