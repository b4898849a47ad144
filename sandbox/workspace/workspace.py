"""Opens a workspace, runs commands in it, keeps its state.

    with open_workspace(load("bubblewrap"), trees, digest) as workspace:
        done = workspace.run_and_snapshot(workspace.shell("cd src && make"))
        journal(done.tree, done.completed.stdout)

A caller that is killed between the two lines opens the last journaled digest, and runs the command again on just that state.
"""

import functools
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import cast

from sandbox.backends.docker.scratch import empty_folder
from sandbox.host.abandoned import pid_namespace, start_time
from sandbox.host.capacity import available_mb
from sandbox.interface import Completed, Sandbox
from sandbox.judging.infra_faults import retried_alone
from sandbox.workspace.files import SizeWatch, inner_path, put_entry, read_file, write_file
from sandbox.workspace.interface import (
    COMMAND_LIMITS,
    Commands,
    Done,
    HoldsWorkspaces,
    Stamp,
    TreeBounds,
    TreeOverrun,
    Trees,
    WorkFolder,
)
from sandbox.workspace.shell import shell_argv
from sandbox.workspace.watching import FolderWatch
from schemas.errors import SandboxUnavailable
from schemas.run import Limits

_MIB = 2**20
_IN_MEMORY, _SPARE_MB = Path("/dev/shm"), 4096
"""Where folders are made in memory, and what is left to programs when all of them have grown to their bounds."""
_KEEPING, _FILLING = threading.Lock(), threading.Lock()
"""Work of one processor: done in turn, the first workspaces of a process go on while others wait; together all would wait."""
_NAME = re.compile(
    r"parley-workspace-(?P<namespace>\d+)-(?P<pid>\d+)-(?P<start>\d+)-(?:(?P<most_mb>\d+)-)?.*"
)


class Workspace:
    """A tree, temporary files and a shell's state, on which commands run one at a time. Safe to use from several threads.

    Args:
        tree: digest of the state that the folder holds now.
        known: what `Trees.restore` returned.
        limits: of a command, where none are given.
    """

    def __init__(
        self,
        commands: Commands,
        folder: WorkFolder,
        trees: Trees,
        tree: str,
        known: dict[Stamp, str],
        owner: int | None,
        limits: Limits,
        bounds: TreeBounds,
        watch: FolderWatch | None,
    ) -> None:
        self._commands, self._folder, self._trees, self._watch = commands, folder, trees, watch
        self._tree, self._known = tree, known
        self._owner, self._limits, self._bounds = owner, limits, bounds
        self._lock = threading.RLock()
        self._ended = threading.Event()

    def shell(self, command: str) -> tuple[str, ...]:
        """What runs a command line in a shell, in the folder and with the exported variables that the last one left."""
        return shell_argv(command, self._folder.place)

    def run(
        self, argv: tuple[str, ...], limits: Limits | None = None, *, stdin: bytes = b""
    ) -> Completed:
        """Run a command in the tree to its end or its limit, with a slot of the host, and end its whole process tree.

        Raises:
            SandboxUnavailable: it could not be run; what it had changed until then is there.
        """
        with self._lock:
            watch = SizeWatch(self._folder.path, self._bounds.total_mb)
            completed = self._commands.run(
                argv, stdin, limits or self._limits, lambda: self._ended.is_set() or watch()
            )
        if not watch.overrun:
            return completed
        ended = completed.model_copy(update={"timed_out": False})
        return _with_note(ended, f"ended: the workspace held more than {self._bounds.total_mb} MiB")

    def run_and_snapshot(
        self, argv: tuple[str, ...], limits: Limits | None = None, *, stdin: bytes = b""
    ) -> Done:
        """Run a command and keep the state. Where it left more than the bounds allow, all that it changed is undone.

        Raises:
            SandboxUnavailable: it could not be run; the state is the last snapshot's.
            DiskFull: as that of `Trees.keep`.
        """

        def once() -> Completed:
            try:
                return self.run(argv, limits, stdin=stdin)
            except SandboxUnavailable:
                self._go_back()
                raise

        with self._lock:
            completed = retried_alone(once)()
            try:
                tree, dropped = self._keep()
            except TreeOverrun as overrun:
                self._go_back()
                undone = f"undone: the workspace held {overrun}"
                return Done(_with_note(completed, undone), self._tree, undone=undone)
            return Done(completed, tree, dropped)

    def snapshot(self) -> str:
        """Keep the state; its digest.

        Raises:
            TreeOverrun: it holds more than the bounds allow.
            DiskFull: as that of `Trees.keep`.
        """
        with self._lock:
            return self._keep()[0]

    def read(self, path: str) -> bytes:
        """A file of the tree; links are followed within it.

        Raises:
            ValueError: the path leads out of the tree.
            OSError: there is no such file, or it is larger than the bounds allow.
        """
        with self._lock:
            found = inner_path(self._folder.tree, self._folder.place, path)
            return read_file(found, self._bounds.file_mb * _MIB)

    def write(self, path: str, data: bytes) -> None:
        """Write a file of the tree, and the folders that it needs; links are followed within the tree.

        Raises:
            ValueError: the path leads out of the tree.
            OSError: it cannot be written.
        """
        with self._lock:
            found = inner_path(self._folder.tree, self._folder.place, path)
            write_file(self._folder.tree, found, data, self._owner)

    def put(
        self, path: str, content: bytes | None, mode: int = 0o644, *, is_link: bool = False
    ) -> None:
        """Have a path of the tree hold this file or link, or nothing, whatever stands there or in its way. No link is followed.

        Args:
            path: relative to the tree, without `..`.
            content: of a link its target; None for nothing.
        """
        with self._lock:
            put_entry(self._folder.tree, path, content, mode, is_link, self._owner)

    def end(self) -> None:
        """End the command that runs, from another thread, and any that comes: the workspace is about to be closed."""
        self._ended.set()

    def _keep(self) -> tuple[str, tuple[str, ...]]:
        with _KEEPING:
            kept = self._trees.keep(
                self._folder.tree, self._folder.beside, self._known, self._bounds, self._watch
            )
        self._tree = kept.digest
        return kept.digest, kept.dropped

    def _go_back(self) -> None:
        for folder in (self._folder.tree, *self._folder.beside.values()):
            _empty(folder)
        self._known = self._trees.restore(
            self._tree, self._folder.tree, self._folder.beside, self._owner, self._watch
        )


@contextmanager
def open_workspace(
    sandbox: HoldsWorkspaces,
    trees: Trees,
    tree: str,
    *,
    place: str = "/testbed",
    limits: Limits = COMMAND_LIMITS,
    bounds: TreeBounds | None = None,
    with_state: bool = True,
    shown: Mapping[str, str] | None = None,
    root: Path | None = None,
) -> Iterator[Workspace]:
    """A workspace in the state of a digest. It holds no slot of the host between commands, and its folder goes at its end.

    Args:
        tree: digest of a folder, or of a workspace's snapshot.
        place: where its commands find the tree, and start.
        with_state: false leaves out what a snapshot holds beside the tree (temporary files, the shell's state), as grading does.
        shown: place inside -> folder of this host that commands may read.
        root: where the folder is made. Without it, in memory where the sandbox and the machine allow that, else in the system's
            temporary folder.

    Raises:
        CorruptRows: the store does not hold the digest.
        SandboxUnavailable: the sandbox cannot run commands on a folder of this host.
    """
    bounds = bounds or TreeBounds()
    for used in {
        root or _disk(),
        _disk(),
        _IN_MEMORY,
    }:  # whichever is chosen today: another day it was another
        remove_abandoned(used)
    home = root or _root(sandbox, bounds.total_mb)
    folder = WorkFolder(
        Path(tempfile.mkdtemp(prefix=_own_prefix(bounds.total_mb), dir=home)), place, shown or {}
    )
    try:
        owner = sandbox.owner(folder)
        for made in (folder.tree, *folder.beside.values()):
            made.mkdir(mode=0o755)
            if owner is not None:
                os.chown(made, owner, owner)
        with sandbox.commands(folder) as commands, _watching(sandbox) as watch:
            with _FILLING:
                known = trees.restore(
                    tree, folder.tree, folder.beside if with_state else {}, owner, watch
                )
            yield Workspace(commands, folder, trees, tree, known, owner, limits, bounds, watch)
    finally:
        _remove(folder.path)


def _disk() -> Path:
    return Path(tempfile.gettempdir())


def _root(sandbox: HoldsWorkspaces, most_mb: int) -> Path:
    """Where a folder is made: files in memory are made ten times as fast, where programs may run there, and where there is room
    for it and all that are open, should each grow to its bound.
    """
    if not _is_of_this_kernel(sandbox) or not _IN_MEMORY.is_dir():
        return _disk()
    found = os.statvfs(_IN_MEMORY)
    room_mb = min(found.f_bavail * found.f_frsize // _MIB, available_mb() or 0)
    names = filter(
        None, (_NAME.fullmatch(path.name) for path in _IN_MEMORY.glob("parley-workspace-*"))
    )
    growth_mb = most_mb + sum(int(name["most_mb"] or 0) for name in names)
    return (
        _IN_MEMORY
        if room_mb - growth_mb >= _SPARE_MB and not found.f_flag & os.ST_NOEXEC
        else _disk()
    )


def _is_of_this_kernel(sandbox: HoldsWorkspaces) -> bool:
    """Whether its programs run on this machine's kernel, and not in a machine of their own that is shown our folders."""
    return getattr(sandbox, "works_in_memory", False)


@contextmanager
def _watching(sandbox: HoldsWorkspaces) -> Iterator[FolderWatch | None]:
    if not _is_of_this_kernel(sandbox):
        yield None
        return
    with closing(FolderWatch()) as watch:
        yield watch


def workspaces_of(sandbox: Sandbox) -> HoldsWorkspaces:
    """The sandbox as a place for workspaces.

    Raises:
        SandboxUnavailable: it has none.
    """
    if not (hasattr(sandbox, "owner") and hasattr(sandbox, "commands")):
        raise SandboxUnavailable(
            f"sandbox {sandbox.name}: no agent can work in it; take --sandbox bubblewrap or docker"
        )
    return cast("HoldsWorkspaces", sandbox)


def _with_note(completed: Completed, note: str) -> Completed:
    return completed.model_copy(update={"stderr": completed.stderr + f"\n[{note}]\n".encode()})


def _own_prefix(most_mb: int) -> str:
    return f"parley-workspace-{pid_namespace()}-{os.getpid()}-{start_time(os.getpid())}-{most_mb}-"


@functools.cache
def remove_abandoned(root: Path) -> None:
    """Remove workspaces whose Parley was killed. Looks once in each process."""
    for path in root.glob("parley-workspace-*"):
        found = _NAME.fullmatch(path.name)
        if (
            found
            and found["namespace"] == str(pid_namespace())
            and start_time(int(found["pid"])) != found["start"]
        ):
            with suppress(OSError):
                _remove(path)


def _remove(path: Path) -> None:
    """Remove a folder that programs filled, however deep it is and whatever its modes are."""
    _empty(path)
    path.rmdir()


def _empty(path: Path) -> None:
    path.chmod(0o755)
    empty_folder(str(path))
