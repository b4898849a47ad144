"""Control of one zygote: a bubblewrap in which a prepared Python runs `harness/zygote/zygote.py`.

A socket connects this process (the driver) with the zygote. A zygote can be used by many sessions,
and isolates each of its runs. It is discarded after many runs, or earlier if a run left processes
or memory of the zygote grew.
"""

import marshal
import os
import socket
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from sandbox.backends.bubblewrap.tool import (
    HARNESS_DIRECTORY,
    NAMESPACES_AS_ROOT,
    Folders,
    mount_arguments,
    why_no_sandbox,
)
from sandbox.host.abandoned import end_abandoned, end_marked, mark_arguments, new_mark
from sandbox.host.python_environment import (
    clean_environment,
    interpreter,
    package_folders,
    python_roots,
)
from sandbox.host.resource_limits import MIB, memory_cgroup
from sandbox.host.seccomp import denied_calls_bpf
from schemas.errors import HostShortage, SandboxUnavailable
from schemas.run import Limits

PYTHON_FLAGS = ("-S", "-s", "-P")
REPORT_FD = 3
"""Number of the descriptor for reports, in the program's variable PARLEY_REPORT_FD.

`harness/zygote/zygote.py` opens the descriptor.
"""
_CAPABILITIES = (
    "CAP_SYS_ADMIN",
    "CAP_NET_ADMIN",
    "CAP_SYS_CHROOT",
    "CAP_SETUID",
    "CAP_SETGID",
    "CAP_SETPCAP",
)
_TO_MAP_A_USER = "CAP_SETFCAP"
"""Capability that the kernel requires before a process may map root into a new user namespace."""
ALWAYS_LOADED = (
    *("abc", "ast", "bisect", "collections", "copy", "datetime", "enum", "functools", "heapq"),
    *(
        "inspect",
        "io",
        "itertools",
        "json",
        "linecache",
        "math",
        "operator",
        "random",
        "re",
        "site",
        "string",
    ),
    *("time", "traceback", "typing"),
)
"""Modules of the standard library that every zygote imports, because function tests or the reports
of their failures need them.
"""
_LONGEST_ANSWER = 1 << 16
_START_S, _ANSWER_S, _END_S = 120.0, 30.0, 10.0
_MOST_RUNS = 2000
_MOST_GROWTH = 64 * MIB
_OWN_KERNEL_MEMORY = 8 * MIB
_FIRST_LIMIT = 4096 * MIB


class ZygoteGone(Exception):
    """Error: the zygote ended, or sent an unexpected answer.

    If it had begun a run, the run's state is unknown.
    """


@dataclass(frozen=True)
class RunEnding:
    """Ending of a run's first process, and the zygote's state after it."""

    returncode: int
    """Exit status as in `Popen.returncode`."""
    cpu_s: float
    resident: int
    """Resident memory of the zygote itself, in bytes."""
    others: int
    """Number of child processes and threads that the zygote should not have."""


class Zygote:
    """Zygote that has started and imported its modules. It runs one command at a time.

    Only one thread at a time may use it.

    Args:
        bwrap: path of bwrap.
        uid: user id of runs. It holds on the host if Parley is root, else in the run's user
            namespace.
        preload: modules to import. Missing modules are skipped.
        packages: folders of packages to use instead of Parley's own.

    Raises:
        SandboxUnavailable: the zygote does not start. The message states the reason.
    """

    def __init__(
        self, bwrap: str, uid: int, preload: Sequence[str], packages: tuple[str, ...] = ()
    ) -> None:
        end_abandoned()
        self._stack = ExitStack()
        try:
            self._group = self._stack.enter_context(memory_cgroup(_FIRST_LIMIT))
            self._memory_limit = _FIRST_LIMIT
            self._control, zygote_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._stack.callback(self._control.close)
            with zygote_end:
                self._process = _start(bwrap, uid, zygote_end.fileno(), self._stack)
            self._resident = self._resident_at_first = self._load(
                tuple(preload), packages or package_folders()
            )
        # Also after a signal, because the caller does not get the object and cannot close it.
        except BaseException:
            self._stack.close()
            raise
        self._runs, self._clean = 0, True

    def start_run(self, descriptors: Sequence[int]) -> int:
        """Fork a run, and return the pidfd of its first process.

        The end of that process is the end of the whole run.

        Args:
            descriptors: stdin, stdout, stderr, report, request, status, in this order.

        Raises:
            ZygoteGone: the zygote did not start the run.
        """
        self._runs += 1
        answer, received = self._ask(("run", 0), descriptors)
        if answer != "running" or len(received) != 1:
            raise ZygoteGone(str(answer))
        return received[0]

    def finish_run(self) -> RunEnding:
        """Return the ending of the run, once the run's pidfd has reported it.

        Raises:
            ZygoteGone: the zygote has ended.
        """
        ended = RunEnding(*self._hear(_END_S)[0])
        self._resident = ended.resident
        self._clean = ended.others == 0 and not (self._group and self._group.reached_its_limit())
        return ended

    def is_pristine(self) -> bool:
        """Return True if the zygote may be used for another run."""
        grown = self._resident - self._resident_at_first
        return (
            self._clean
            and self._process.poll() is None
            and grown < _MOST_GROWTH
            and self._runs < _MOST_RUNS
        )

    def keep_directory(self, size_bytes: int) -> None:
        """Let all later runs share a working directory.

        Raises:
            SandboxUnavailable: the zygote cannot make the directory.
        """
        self._set_directory("keep", size_bytes)

    def drop_directory(self) -> None:
        """Give each run its own empty working directory again.

        Raises:
            SandboxUnavailable: the zygote does not answer.
        """
        self._set_directory("drop", 0)

    def _set_directory(self, order: str, size_bytes: int) -> None:
        try:
            refusal = self._ask((order, size_bytes), ())[0]
        except ZygoteGone as error:
            raise SandboxUnavailable(f"zygote: {error}") from error
        if refusal:
            raise SandboxUnavailable(
                f"zygote: the session's working directory could not be made: {refusal}"
            )

    def limit_memory(self, run_bytes: int) -> None:
        """Limit the total memory of a run's processes, in addition to the zygote's own memory."""
        limit = self._resident_at_first + _OWN_KERNEL_MEMORY + run_bytes
        if self._group is not None and limit != self._memory_limit:
            self._group.limit(limit)
            self._memory_limit = limit

    def memory_kills(self) -> int:
        """Return how many processes were killed so far because memory ran out."""
        return self._group.kills() if self._group is not None else 0

    def ran_out_of_memory(self, killed_before: int) -> bool:
        """Return True if further processes were killed because the run reached its memory limit.

        Raises:
            HostShortage: processes were killed because the machine was out of memory.
        """
        return self._group is not None and self._group.ran_out(killed_before)

    def close(self) -> None:
        """End the zygote with every process in it. A second call does nothing."""
        self._stack.close()

    def disown(self) -> None:
        """Release the zygote without ending it, in a fork of the process that owns it."""
        self._stack.pop_all()
        self._control.close()

    def _load(self, preload: tuple[str, ...], folders: tuple[str, ...]) -> int:
        set_up = {
            "as_root": os.geteuid() == 0,
            "filter": denied_calls_bpf(),
            "always": ALWAYS_LOADED,
            "preload": preload,
            "folders": folders,
            "roots": python_roots(),
        }
        with ExitStack() as stack:
            procs: tuple[int, ...] = ()
            if self._group is not None:
                procs = (os.open(self._group.folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC),)
                stack.callback(os.close, procs[0])
            try:
                resident, _ = self._ask(set_up, procs, _START_S)
            except ZygoteGone as error:
                raise self._why_not_up(error) from error
        return int(resident)

    def _ask(
        self, question: Any, descriptors: Sequence[int], limit_s: float = _ANSWER_S
    ) -> tuple[Any, list[int]]:
        try:
            socket.send_fds(self._control, [marshal.dumps(question)], list(descriptors))
        except OSError as error:
            raise ZygoteGone(f"the zygote does not accept requests: {error.strerror}") from error
        return self._hear(limit_s)

    def _hear(self, limit_s: float) -> tuple[Any, list[int]]:
        self._control.settimeout(limit_s)
        try:
            message, received, _, _ = socket.recv_fds(self._control, _LONGEST_ANSWER, 1)
        except OSError as error:
            raise ZygoteGone(f"the zygote did not answer within {limit_s:g} s: {error}") from error
        if not message:
            raise ZygoteGone("the zygote ended")
        return marshal.loads(message), received

    def _why_not_up(self, error: ZygoteGone) -> SandboxUnavailable:
        """Return the error with the text that the zygote or bubblewrap wrote before it ended."""
        try:
            _, stderr = self._process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            return HostShortage(f"zygote: {error}: the host is overloaded")
        return why_no_sandbox(self._process.returncode, stderr)


def _start(bwrap: str, uid: int, control: int, stack: ExitStack) -> "subprocess.Popen[bytes]":
    mark = new_mark()
    with ExitStack() as files:
        mounts, mounted = mount_arguments(Limits(), uid, Folders(), files)
        # Otherwise each run would look up the functions of libraries that it calls.
        environment = clean_environment("/tmp", REPORT_FD) | {"LD_BIND_NOW": "1"}
        argv = (
            *(bwrap, *mark_arguments(mark), *_privileges()),
            *("--hostname", "sandbox", "--new-session", "--die-with-parent"),
            *(
                "--clearenv",
                *(part for item in environment.items() for part in ("--setenv", *item)),
            ),
            *(
                *mounts,
                "--",
                interpreter(),
                *PYTHON_FLAGS,
                f"{HARNESS_DIRECTORY}/zygote/zygote.py",
                str(control),
            ),
        )
        process = _starter.submit(_popen, argv, (control, *mounted)).result()
    stack.callback(_end, process, mark)
    return process


def _popen(argv: tuple[str, ...], open_fds: tuple[int, ...]) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={},
            pass_fds=open_fds,
        )
    except OSError as error:
        raise SandboxUnavailable(
            f"{argv[0]}: cannot be started ({error.strerror}); see `parley doctor`"
        ) from error


def _end(process: "subprocess.Popen[bytes]", mark: str) -> None:
    with suppress(ProcessLookupError):  # The process has ended by itself.
        # The first process of its pid namespace dies with it, and with that all others.
        process.kill()
    # A child that bwrap has just started may not yet have asked the kernel to end it with bwrap.
    end_marked(mark)
    process.communicate()


def _privileges() -> tuple[str, ...]:
    as_root = os.geteuid() == 0
    capabilities = _CAPABILITIES if as_root else (*_CAPABILITIES, _TO_MAP_A_USER)
    added = tuple(part for name in capabilities for part in ("--cap-add", name))
    if as_root:
        return (*NAMESPACES_AS_ROOT, "--cap-drop", "ALL", *added)
    return (
        "--unshare-all",
        "--unshare-user",
        "--uid",
        "0",
        "--gid",
        "0",
        "--cap-drop",
        "ALL",
        *added,
    )


def _new_starter() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "parley-zygotes")


_starter = _new_starter()
"""Executor whose thread starts every bwrap. bwrap dies with the thread that started it, so this
thread must live as long as the process.
"""


def _forget_starter() -> None:
    global _starter
    _starter = _new_starter()


os.register_at_fork(after_in_child=_forget_starter)
