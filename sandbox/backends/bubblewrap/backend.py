"""Sandbox `bubblewrap`, which starts a hardened bubblewrap for each command.

`sandbox/README.md` lists the attacks that it resists. If root starts bwrap, it builds real mounts,
and the program runs as the slot's own user without any capability. If an ordinary user starts
bwrap, it makes a user namespace, in which further user namespaces are forbidden.
"""

import json
import os
import select
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from io import FileIO
from pathlib import Path

from sandbox.backends.bubblewrap.tool import (
    HARNESS_DIRECTORY,
    NAMESPACES_AS_ROOT,
    SHARED_FOLDER,
    WORKING_DIRECTORY,
    Folders,
    bwrap_path,
    bwrap_version,
    check_python,
    mount_arguments,
    shared_folder,
    why_no_sandbox,
)
from sandbox.host.abandoned import end_abandoned, end_marked, mark_arguments, new_mark
from sandbox.host.file_archive import archive
from sandbox.host.python_environment import clean_environment, environment_digest, placed
from sandbox.host.resource_limits import (
    MIB,
    MemoryCgroup,
    memory_cgroup,
    prlimit_argv,
    required_tool,
)
from sandbox.host.seccomp import denied_calls_bpf
from sandbox.host.slots import hold_slot, slot_count, uid_of
from sandbox.host.supervision import Channels, Command, Ending, completed, memory_file, supervise
from sandbox.interface import Completed, Session
from sandbox.workspace.interface import ENVIRONMENT_PLACE, WorkFolder
from schemas.errors import HostShortage, SandboxUnavailable
from schemas.run import Limits

_UNPACK = 'tar -xf "/proc/self/fd/$0" --unlink-first --recursive-unlink || exit 73; exec "$@"'
"""Command that unpacks files in the sandbox as the program's own user. If an earlier command left a
link, files are written through it only where this user may write anyway.
"""
_KEPT_FOR_SETPRIV = (
    "--cap-add",
    "CAP_SETUID",
    "--cap-add",
    "CAP_SETGID",
    "--cap-add",
    "CAP_SETPCAP",
)


_TEARDOWN_S = 10.0


class BubblewrapSandbox:
    """Sandbox that runs each command in its own namespaces.

    A command has no network, no secrets and bounded resources. See `sandbox.interface.Sandbox` and
    `sandbox.workspace.interface.HoldsWorkspaces`.

    Args:
        packages: folders of packages to use instead of those installed beside Parley.
        bwrap_path: path of `bwrap`; by default the one on PATH.
        slots: maximum number of programs running at the same time on this host; by default one per
            CPU.
        slot_directory: folder of the slots' lock files.
    """

    name = "bubblewrap"
    isolated = True
    has_host_packages = True
    takes_packages = True
    works_in_memory = True
    """True if a workspace's folder may be in the memory of this host."""

    def __init__(
        self,
        *,
        packages: tuple[str, ...] = (),
        bwrap_path: str | None = None,
        slots: int | None = None,
        slot_directory: Path | None = None,
    ) -> None:
        self.packages = packages
        self._bwrap_option = bwrap_path
        self._slots = slots or slot_count()
        self._slot_directory = slot_directory

    def check(self) -> None:
        """Run a trivial program.

        Raises:
            SandboxUnavailable: the program fails. The message states what to install or to allow.
        """
        check_python(self)

    def fingerprint(self) -> str:
        return f"bubblewrap {bwrap_version(self._bwrap)}; {environment_digest(self.packages)}"

    @contextmanager
    def session(self, limits: Limits, *, keep_files: bool = False) -> Iterator[Session]:
        bwrap = self._bwrap
        end_abandoned()
        with ExitStack() as stack:
            slot = stack.enter_context(
                hold_slot(self._slots, self._slot_directory, limits.memory_mb)
            )
            group = stack.enter_context(memory_cgroup(limits.memory_mb * MIB))
            enter = stack.enter_context(shared_folder(limits.tmp_mb * MIB)) if keep_files else ()
            folders = Folders(binds={WORKING_DIRECTORY: SHARED_FOLDER} if keep_files else {})
            yield BubblewrapSession(
                bwrap, limits, uid_of(slot, self._slot_directory), group, folders, enter
            )

    def owner(self, folder: WorkFolder) -> int | None:
        return uid_of(0, folder.path) if os.geteuid() == 0 else None

    @contextmanager
    def commands(self, folder: WorkFolder) -> Iterator["BubblewrapCommands"]:
        end_abandoned()
        yield BubblewrapCommands(self, folder)

    def run_in(
        self,
        folder: WorkFolder,
        argv: tuple[str, ...],
        stdin: bytes,
        limits: Limits,
        is_over: Callable[[], bool],
    ) -> Completed:
        """Run a command on a folder of this host. See `sandbox.workspace.interface.Commands`."""
        with ExitStack() as stack:
            stack.enter_context(hold_slot(self._slots, self._slot_directory, limits.memory_mb))
            group = stack.enter_context(memory_cgroup(limits.memory_mb * MIB))
            uid = uid_of(0, folder.path)
            hides_packages = ENVIRONMENT_PLACE in folder.shown
            folders = Folders(folder.place, folder.binds, folder.shown, hides_packages)
            session = BubblewrapSession(self._bwrap, limits, uid, group, folders)
            return session.run(argv, stdin=stdin, is_over=is_over)

    @cached_property
    def _bwrap(self) -> str:
        return bwrap_path(self._bwrap_option)


class BubblewrapCommands:
    """Commands of a workspace. See `sandbox.workspace.interface.Commands`."""

    def __init__(self, sandbox: BubblewrapSandbox, folder: WorkFolder) -> None:
        self._sandbox, self._folder = sandbox, folder

    def run(
        self, argv: tuple[str, ...], stdin: bytes, limits: Limits, is_over: Callable[[], bool]
    ) -> Completed:
        return self._sandbox.run_in(self._folder, argv, stdin, limits, is_over)


class BubblewrapSession:
    """Session of bubblewrap. See `sandbox.interface.Session`.

    All commands of the session share one memory cgroup and its limit.
    """

    def __init__(
        self,
        bwrap: str,
        limits: Limits,
        uid: int,
        group: MemoryCgroup | None,
        folders: Folders,
        enter_shared_folder: tuple[str, ...] = (),
    ) -> None:
        self._bwrap, self._limits, self._uid, self._group = bwrap, limits, uid, group
        self._folders, self._enter = folders, enter_shared_folder

    def run(
        self,
        argv: tuple[str, ...],
        *,
        files: Mapping[str, bytes] | None = None,
        stdin: bytes = b"",
        limits: Limits | None = None,
        is_over: Callable[[], bool] | None = None,
    ) -> Completed:
        limits = limits or self._limits
        killed_before = self._group.kills() if self._group else 0
        try:
            with ExitStack() as stack:
                ending, set_up = self._supervised(
                    argv, archive(files or {}), stdin, limits, is_over, stack
                )
        except OSError as error:
            raise SandboxUnavailable(
                f"bubblewrap: {error}; the host may be out of memory or descriptors"
            ) from error
        out_of_memory = self._group is not None and self._group.ran_out(killed_before)
        # When memory runs out, the kernel may also have killed bwrap's process in the sandbox.
        if not out_of_memory:
            set_up.verify(ending)
        return completed(ending, limits, cpu_s=None, out_of_memory=out_of_memory)

    def _supervised(
        self,
        argv: tuple[str, ...],
        packed: bytes,
        stdin: bytes,
        limits: Limits,
        is_over: Callable[[], bool] | None,
        stack: ExitStack,
    ) -> tuple[Ending, "_SetUp"]:
        channels = Channels(stack)
        set_up = _SetUp(self._group, stack)
        seccomp = memory_file("seccomp", denied_calls_bpf(), stack)
        mounts, mounted = mount_arguments(limits, self._uid, self._folders, stack)
        files = memory_file("files", packed, stack) if packed else None
        environment = clean_environment("/tmp", channels.report_end.fileno())
        command = Command(
            argv=(
                *self._enter,
                self._bwrap,
                *mark_arguments(set_up.mark),
                *_privileges(self._uid),
                *(
                    "--hostname",
                    "sandbox",
                    "--new-session",
                    "--die-with-parent",
                    "--seccomp",
                    str(seccomp),
                ),
                *(
                    "--block-fd",
                    str(set_up.blocked_end),
                    "--json-status-fd",
                    str(channels.status_end.fileno()),
                ),
                *(
                    "--clearenv",
                    *(part for item in environment.items() for part in ("--setenv", *item)),
                ),
                *mounts,
                "--",
                *prlimit_argv(limits, count_processes=True),
                *_drop_privileges(self._uid),
                *(("/bin/sh", "-c", _UNPACK, str(files)) if files is not None else ()),
                *(placed(item, HARNESS_DIRECTORY) for item in argv),
            ),
            environment={},
            limits=limits,
            stdin=stdin,
            open_fds=(seccomp, set_up.blocked_end, *mounted, *(() if files is None else (files,))),
            on_status=set_up.on_status,
            is_over=is_over,
        )
        ending = supervise(command, channels, stack, set_up.kill)
        set_up.await_end()
        return ending, set_up


class _SetUp:
    """Reader of bwrap's status stream: the pid of its child, and whether the program was reached.

    The candidate process cannot write to the stream.
    """

    def __init__(self, group: MemoryCgroup | None, stack: ExitStack) -> None:
        self._group, self._stack = group, stack
        self.mark = new_mark()
        reading, writing = os.pipe()
        self._blocked = stack.enter_context(FileIO(reading, "r"))
        self._release = stack.enter_context(FileIO(writing, "w"))
        self._text = b""
        self._child: int | None = None
        self._reached = False

    @property
    def blocked_end(self) -> int:
        """Pipe on which bwrap's child waits until it is in the cgroup."""
        return self._blocked.fileno()

    def on_status(self, data: bytes) -> None:
        *lines, self._text = (self._text + data).split(b"\n")
        for line in lines:
            if not line.strip():
                continue
            status = json.loads(line)
            self._reached = self._reached or "exit-code" in status
            if "child-pid" in status and self._child is None:
                self._admit(int(status["child-pid"]))

    def _admit(self, pid: int) -> None:
        self._child = os.pidfd_open(pid)
        self._stack.callback(os.close, self._child)
        if self._group is not None:
            self._group.add(pid)
        self._release.write(b"x")

    def kill(self, pid: int) -> None:
        """Kill the first process of the pid namespace, and with it all others.

        If there is no such process yet, kill bwrap (`pid`) itself.
        """
        with suppress(ProcessLookupError):
            if self._child is None:
                os.kill(pid, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(self._child, signal.SIGKILL)

    def await_end(self) -> None:
        """Wait until the pid namespace has ended. bwrap itself ends as soon as the program does."""
        if self._child is None:
            # bwrap ended before it reported its child's pid. A child may exist nevertheless.
            end_marked(self.mark)
        elif not select.select([self._child], [], [], _TEARDOWN_S)[0]:
            raise SandboxUnavailable(
                "processes of a sandbox did not die within "
                f"{_TEARDOWN_S:g} s of being killed: the host may be overloaded"
            )

    def verify(self, ending: Ending) -> None:
        """Raise SandboxUnavailable unless the program started, or exceeded its wall-clock limit."""
        if self._child is not None and (self._reached or ending.overran):
            return
        if ending.overran:
            raise HostShortage(
                f"bubblewrap did not set up a sandbox within {ending.wall_s:.0f} s: "
                "the host is overloaded"
            )
        raise why_no_sandbox(ending.returncode, ending.stderr)


def _privileges(uid: int) -> tuple[str, ...]:
    if os.geteuid() == 0:
        return (*NAMESPACES_AS_ROOT, "--cap-drop", "ALL", *_KEPT_FOR_SETPRIV)
    return (
        "--unshare-all",
        "--unshare-user",
        "--disable-userns",
        "--uid",
        str(uid),
        "--gid",
        str(uid),
        "--cap-drop",
        "ALL",
    )


def _drop_privileges(uid: int) -> tuple[str, ...]:
    if os.geteuid() != 0:
        return ()
    identity = ("--reuid", str(uid), "--regid", str(uid), "--clear-groups")
    return (
        required_tool("setpriv"),
        *identity,
        "--bounding-set",
        "-all",
        "--inh-caps",
        "-all",
        "--no-new-privs",
        "--",
    )
