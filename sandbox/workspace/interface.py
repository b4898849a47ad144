"""Interface of workspaces, in which an agent runs commands.

No process outlives a command, so the state consists only of files. A workspace that is opened from
a snapshot has the state at which the snapshot was taken.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from pydantic import Field

from sandbox.interface import Completed
from sandbox.workspace.watching import FolderWatch
from schemas.base import Frozen
from schemas.run import Limits

COMMAND_LIMITS = Limits(
    cpu_s=300,
    wall_s=120,
    memory_mb=2048,
    processes=128,
    file_mb=128,
    tmp_mb=256,
    open_files=1024,
    output_kb=64,
)
"""Default limits of one command."""


SHELL_PLACE = "/shell"
"""Path at which a command sees the folder with the shell's state."""
ENVIRONMENT_PLACE = "/environment"
"""Path at which a command sees the packages of its environment, if it has one."""
_IMAGE = "image:"


def in_image(image: str, programs: str) -> str:
    """Return the name of an environment that is in an image: `image:PROGRAMS:IMAGE`.

    Args:
        image: name of the image, pinned by digest.
        programs: folder of the environment's programs, such as `python`.
    """
    return f"{_IMAGE}{programs}:{image}"


def image_of(environment: str) -> str:
    """Return the image of an environment; empty if the environment is not in an image.

    Other environments are named by a digest of their packages; Parley's own has an empty name.
    """
    return (
        environment.removeprefix(_IMAGE).partition(":")[2] if environment.startswith(_IMAGE) else ""
    )


def programs_of(environment: str) -> str:
    """Return the folder of an environment's programs, such as `python`, as a command sees it."""
    return (
        environment.removeprefix(_IMAGE).partition(":")[0]
        if image_of(environment)
        else f"{ENVIRONMENT_PLACE}/bin"
    )


class TreeBounds(Frozen):
    """Bounds of a workspace's content."""

    total_mb: int = Field(default=1024, ge=1)
    file_mb: int = Field(default=128, ge=1)
    files: int = Field(default=100_000, ge=1)
    """Number of files, folders and links."""
    depth: int = Field(default=64, ge=1)


class TreeOverrun(Exception):
    """Error: a workspace exceeds its bounds. The command is the cause, not the sandbox."""


class Stamp(NamedTuple):
    """File attributes, of which at least one changes with the file's content.

    A program can set a file's `mtime` back, but not its `ctime`.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True)
class StoredFolder:
    """Folder that was put into the store."""

    digest: str
    dropped: tuple[str, ...] = ()
    """Paths that cannot be stored (pipes, sockets, devices). They were also removed from the folder
    on disk.
    """


class Entry(NamedTuple):
    """File or symbolic link of a tree."""

    mode: int
    what: str
    """Digest of a file's content, or the target of a link."""
    is_link: bool = False


class Trees(Protocol):
    """Store of folders, which are identified by digests of their content."""

    def get(self, digest: str) -> bytes:
        """Return a file's content.

        Raises:
            CorruptRows: the store does not have the digest.
        """
        ...

    def changes(self, old: str, new: str) -> Mapping[str, tuple[Entry | None, Entry | None]]:
        """Return the files and links that differ between two trees, by path.

        A value is the pair (old entry, new entry). An entry that does not exist is None.

        Raises:
            CorruptRows: the store does not have one of the trees.
        """
        ...

    def files(self, digest: str, paths: Iterable[str]) -> Mapping[str, Entry]:
        """Return the entries of those `paths` that are files or links of a tree.

        Raises:
            CorruptRows: the store does not have the tree.
        """
        ...

    def keep(
        self,
        folder: Path,
        beside: Mapping[str, Path],
        known_digests: dict[Stamp, str],
        bounds: TreeBounds,
        watch: FolderWatch | None = None,
    ) -> StoredFolder:
        """Put a folder into the store. Content that the store already has is not written again.

        Args:
            folder: folder to store.
            beside: further folders of the state, by name. If all of them are empty, the digest is
                the one of `folder` alone.
            known_digests: map from stamp to digest. A file whose stamp is in the map is not read.
                The method updates the map for the next call.
            bounds: bounds of the content.
            watch: watch that reports which folders did not change, and which stamps are unreliable
                because some writes do not change timestamps on this file system. Without a watch,
                all folders are searched, and all files on such a file system are read.

        Raises:
            TreeOverrun: the folder exceeds `bounds`. Nothing refers to content that was stored
                before the error.
        """
        ...

    def restore(
        self,
        digest: str,
        folder: Path,
        beside: Mapping[str, Path],
        owner: int | None = None,
        watch: FolderWatch | None = None,
    ) -> dict[Stamp, str]:
        """Fill empty folders with stored content, and return the `known_digests` of `keep`.

        Args:
            digest: digest of the state.
            folder: folder to fill.
            beside: targets of the state's further folders, by name. Folders without a target are
                omitted.
            owner: user and group id of all files and folders; by default the caller's.
            watch: watch to set on the folders, for later calls of `keep`.

        Raises:
            CorruptRows: the store does not have the digest, or its content is damaged.
        """
        ...


@dataclass(frozen=True)
class WorkFolder:
    """Files of a workspace on this host, and the paths at which its commands see them."""

    path: Path
    place: str = "/testbed"
    shown: Mapping[str, str] = field(default_factory=dict[str, str])
    """Map from a path in the sandbox to the folder of this host that is mounted there read-only.

    These folders do not belong to the state.
    """

    @property
    def tree(self) -> Path:
        """Return the folder with the workspace's files. Other parts of its state lie beside it."""
        return self.path / "tree"

    @property
    def beside(self) -> dict[str, Path]:
        """Return the further folders of the workspace's state: temporary files, shell state."""
        return {name: self.path / name for name in ("tmp", "shell")}

    @property
    def binds(self) -> dict[str, str]:
        """Return the bind mounts: a map from path in the sandbox to the folder of this host."""
        return {
            self.place: str(self.tree),
            "/tmp": str(self.path / "tmp"),
            SHELL_PLACE: str(self.path / "shell"),
        }


@dataclass(frozen=True)
class CommandResult:
    """Result of a command, and the state after it."""

    completed: Completed
    tree: str
    """Digest of the state after the command."""
    dropped: tuple[str, ...] = ()
    """Paths of pipes, sockets and devices that the command made. They are not stored."""
    undone: str = ""
    """Reason why the command's changes were undone; empty if they were not. It is also appended to
    the command's `stderr`.
    """


class Commands(Protocol):
    """Runner of commands on a work folder, one at a time."""

    def run(
        self, argv: tuple[str, ...], stdin: bytes, limits: Limits, is_over: Callable[[], bool]
    ) -> Completed:
        """Run a command to its end or its limit, and end its whole process tree.

        The command occupies a slot of the host while it runs.

        Args:
            argv: command, as in `sandbox.interface.Session.run`.
            stdin: input of the command.
            limits: limits of the command.
            is_over: function called several times a second. True ends the command.

        Raises:
            SandboxUnavailable: the command could not be run.
        """
        ...


class HoldsWorkspaces(Protocol):
    """Sandbox that can run commands on a folder of this host."""

    name: str

    def owner(self, folder: WorkFolder) -> int | None:
        """Return the user and group id that the folder's files need; None for the caller's own."""
        ...

    def commands(self, folder: WorkFolder) -> AbstractContextManager[Commands]:
        """Return a runner of commands on the folder. Between commands it occupies no slot."""
        ...
