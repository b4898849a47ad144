"""Workspaces, in which commands run on a tree of files whose states can be stored.

    with open_workspace(load("bubblewrap"), trees, digest) as workspace:
        done = workspace.run_and_snapshot(workspace.shell("cd src && make"))
        journal(done.tree, done.completed.stdout)

If the caller is killed before the last line, its next start opens the digest that was journaled
last and runs the command again, on exactly that state.
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
from sandbox.host.slots import available_mb, retried_alone
from sandbox.interface import Completed, Sandbox
from sandbox.workspace.files import SizeWatch, inner_path, put_entry, read_file, write_file
from sandbox.workspace.interface import (
    COMMAND_LIMITS,
    CommandResult,
    Commands,
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
"""Folder for workspaces in memory, and the MiB of memory that must remain for programs even if all
workspaces grow to their maximum sizes.
"""
_KEEPING, _FILLING = threading.Lock(), threading.Lock()
"""Locks around storing and filling of folders, which is CPU-bound work.

If threads do this work one after another, the first workspaces can continue soon. If they do it in
parallel, all workspaces wait until the end.
"""
_NAME = re.compile(
    r"parley-workspace-(?P<namespace>\d+)-(?P<pid>\d+)-(?P<start>\d+)-(?:(?P<most_mb>\d+)-)?.*"
)


class Workspace:
    """Tree, temporary files and shell state, on which commands run one at a time.

    It is safe to use from several threads.

    Args:
        commands: runner of commands.
        folder: files of the workspace.
        trees: store of the states.
        tree: digest of the state that the folder contains now.
        digests: map from stamp to digest that `Trees.restore` returned.
        owner: user and group id of the files; None for the caller's own.
        limits: default limits of a command.
        bounds: bounds of the content.
        watch: watch on the folders, if there is one.
    """

    def __init__(
        self,
        commands: Commands,
        folder: WorkFolder,
        trees: Trees,
        tree: str,
        digests: dict[Stamp, str],
        owner: int | None,
        limits: Limits,
        bounds: TreeBounds,
        watch: FolderWatch | None,
    ) -> None:
        self._commands, self._folder, self._trees, self._watch = commands, folder, trees, watch
        self._tree, self._digests = tree, digests
        self._owner, self._limits, self._bounds = owner, limits, bounds
        self._lock = threading.RLock()
        self._ended = threading.Event()

    def shell(self, command: str) -> tuple[str, ...]:
        """Return the command that runs a command line in a shell.

        The shell starts in the folder and with the exported variables that the previous shell
        left.
        """
        return shell_argv(command, self._folder.place)

    def run(
        self, argv: tuple[str, ...], limits: Limits | None = None, *, stdin: bytes = b""
    ) -> Completed:
        """Run a command in the tree to its end or its limit, and end its whole process tree.

        The command holds a slot of the host.

        Raises:
            SandboxUnavailable: the command could not be run. Changes that it made before remain.
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
    ) -> CommandResult:
        """Run a command and store the state.

        If the state exceeds the bounds, the changes are undone.

        Raises:
            SandboxUnavailable: the command could not be run. The state is that of the last
                snapshot.
            DiskFull: see `Trees.keep`.
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
                return CommandResult(_with_note(completed, undone), self._tree, undone=undone)
            return CommandResult(completed, tree, dropped)

    def snapshot(self) -> str:
        """Store the state, and return its digest.

        Raises:
            TreeOverrun: the state exceeds the bounds.
            DiskFull: see `Trees.keep`.
        """
        with self._lock:
            return self._keep()[0]

    def read(self, path: str) -> bytes:
        """Return the content of a file of the tree. Links are followed within the tree.

        Raises:
            ValueError: the path leads out of the tree.
            OSError: the file does not exist, or is larger than the bounds allow.
        """
        with self._lock:
            inner = inner_path(self._folder.tree, self._folder.place, path)
            return read_file(inner, self._bounds.file_mb * _MIB)

    def write(self, path: str, data: bytes) -> None:
        """Write a file of the tree, and the folders that it needs.

        Links are followed within the tree.

        Raises:
            ValueError: the path leads out of the tree.
            OSError: the file cannot be written.
        """
        with self._lock:
            inner = inner_path(self._folder.tree, self._folder.place, path)
            write_file(self._folder.tree, inner, data, self._owner)

    def put(
        self, path: str, content: bytes | None, mode: int = 0o644, *, is_link: bool = False
    ) -> None:
        """Put a file or a link at a path of the tree, or remove what is there.

        Anything that is in the way is replaced. No link is followed.

        Args:
            path: path relative to the tree, without `..`.
            content: content of the file, or target of the link; None to remove what is there.
            mode: permissions of the file.
            is_link: True for a link.
        """
        with self._lock:
            put_entry(self._folder.tree, path, content, mode, is_link, self._owner)

    def end(self) -> None:
        """End the running command and all later ones.

        Another thread calls this before the workspace closes.
        """
        self._ended.set()

    def _keep(self) -> tuple[str, tuple[str, ...]]:
        with _KEEPING:
            stored = self._trees.keep(
                self._folder.tree, self._folder.beside, self._digests, self._bounds, self._watch
            )
        self._tree = stored.digest
        return stored.digest, stored.dropped

    def _go_back(self) -> None:
        for folder in (self._folder.tree, *self._folder.beside.values()):
            _empty(folder)
        self._digests = self._trees.restore(
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
    """Open a workspace in the state of a digest.

    Between commands the workspace occupies no slot of the host. Its folder is removed when the
    block ends.

    Args:
        sandbox: sandbox that runs the commands.
        trees: store of the states.
        tree: digest of a folder, or of a workspace's snapshot.
        place: path at which commands see the tree, and in which they start.
        limits: default limits of a command.
        bounds: bounds of the content.
        with_state: if False, omit a snapshot's further folders (temporary files, the shell's
            state), as grading does.
        shown: map from a path in the sandbox to the folder of this host mounted there read-only.
        root: parent of the workspace's folder. By default a folder in memory if the sandbox and the
            machine allow that, else the system's temporary folder.

    Raises:
        CorruptRows: the store does not have the digest.
        SandboxUnavailable: the sandbox cannot run commands on a folder of this host.
    """
    bounds = bounds or TreeBounds()
    # Earlier workspaces may be in either of these parent folders.
    for used in {root or _disk(), _disk(), _IN_MEMORY}:
        remove_abandoned(used)
    home = root or _root(sandbox, bounds.total_mb)
    folder = WorkFolder(
        Path(tempfile.mkdtemp(prefix=_own_prefix(bounds.total_mb), dir=home)), place, shown or {}
    )
    try:
        owner = sandbox.owner(folder)
        for subfolder in (folder.tree, *folder.beside.values()):
            subfolder.mkdir(mode=0o755)
            if owner is not None:
                os.chown(subfolder, owner, owner)
        with sandbox.commands(folder) as commands, _watching(sandbox) as watch:
            with _FILLING:
                digests = trees.restore(
                    tree, folder.tree, folder.beside if with_state else {}, owner, watch
                )
            yield Workspace(commands, folder, trees, tree, digests, owner, limits, bounds, watch)
    finally:
        _remove(folder.path)


def _disk() -> Path:
    return Path(tempfile.gettempdir())


def _root(sandbox: HoldsWorkspaces, most_mb: int) -> Path:
    """Return the parent folder of a new workspace.

    Files can be created ten times as fast in memory. Memory is chosen if programs may be executed
    there, and if this workspace and all open ones would fit even at their maximum sizes.
    """
    if not _is_of_this_kernel(sandbox) or not _IN_MEMORY.is_dir():
        return _disk()
    status = os.statvfs(_IN_MEMORY)
    room_mb = min(status.f_bavail * status.f_frsize // _MIB, available_mb() or 0)
    names = filter(
        None, (_NAME.fullmatch(path.name) for path in _IN_MEMORY.glob("parley-workspace-*"))
    )
    growth_mb = most_mb + sum(int(name["most_mb"] or 0) for name in names)
    return (
        _IN_MEMORY
        if room_mb - growth_mb >= _SPARE_MB and not status.f_flag & os.ST_NOEXEC
        else _disk()
    )


def _is_of_this_kernel(sandbox: HoldsWorkspaces) -> bool:
    """Return True if the sandbox's programs run on this machine's kernel.

    Other sandboxes may run programs in a virtual machine, which mounts folders of this host.
    """
    return getattr(sandbox, "works_in_memory", False)


@contextmanager
def _watching(sandbox: HoldsWorkspaces) -> Iterator[FolderWatch | None]:
    if not _is_of_this_kernel(sandbox):
        yield None
        return
    with closing(FolderWatch()) as watch:
        yield watch


def workspaces_of(sandbox: Sandbox) -> HoldsWorkspaces:
    """Return the sandbox, after checking that it supports workspaces.

    Raises:
        SandboxUnavailable: the sandbox does not support workspaces.
    """
    if not (hasattr(sandbox, "owner") and hasattr(sandbox, "commands")):
        raise SandboxUnavailable(
            f"sandbox {sandbox.name}: agents cannot work in it. Use --sandbox bubblewrap or docker"
        )
    return cast("HoldsWorkspaces", sandbox)


def _with_note(completed: Completed, note: str) -> Completed:
    return completed.model_copy(update={"stderr": completed.stderr + f"\n[{note}]\n".encode()})


def _own_prefix(most_mb: int) -> str:
    return f"parley-workspace-{pid_namespace()}-{os.getpid()}-{start_time(os.getpid())}-{most_mb}-"


@functools.cache
def remove_abandoned(root: Path) -> None:
    """Remove workspaces of killed Parley processes. Later calls in a process do nothing."""
    for path in root.glob("parley-workspace-*"):
        match = _NAME.fullmatch(path.name)
        if (
            match
            and match["namespace"] == str(pid_namespace())
            and start_time(int(match["pid"])) != match["start"]
        ):
            with suppress(OSError):
                _remove(path)


def _remove(path: Path) -> None:
    """Remove a folder that programs filled, of any depth and with any modes."""
    _empty(path)
    path.rmdir()


def _empty(path: Path) -> None:
    path.chmod(0o755)
    empty_folder(str(path))
