"""Interface of workspaces, in which an agent runs commands.

No process outlives a command, so the files are the state: a workspace opened from a snapshot
continues where the snapshot was taken.
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
"""Path at which a command sees its own packages, if it has some."""
_IMAGE = "image:"


def in_image(image: str, programs: str) -> str:
    """Return the name of the environment in an image: `image:PROGRAMS:IMAGE`.

    Args:
        image: name of the image, pinned by digest.
        programs: folder of its programs, `python` among them.
    """
    return f"{_IMAGE}{programs}:{image}"


def image_of(environment: str) -> str:
    """Return the image of an environment; empty if it is a digest of packages, or Parley's own."""
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
    """A workspace exceeds its bounds. The command's author is to blame, not the sandbox."""


class Stamp(NamedTuple):
    """File attributes that change with its content.

    A program can set a file's `mtime` back, but no program can set its `ctime`.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True)
class StoredFolder:
    """Folder in the store."""

    digest: str
    dropped: tuple[str, ...] = ()
    """Paths that cannot be stored (pipes, sockets, devices). They were removed from the folder,
    too."""


class Entry(NamedTuple):
    """File or link of a tree."""

    mode: int
    what: str
    """Digest of a file's content, or the target of a link."""
    is_link: bool = False


class Trees(Protocol):
    """Store of folders, addressed by content."""

    def get(self, digest: str) -> bytes:
        """Return a file's content. Raises CorruptRows if the store does not have it."""
        ...

    def changes(self, old: str, new: str) -> Mapping[str, tuple[Entry | None, Entry | None]]:
        """Return the files and links that differ between two trees, by path.

        A value is the entry before and after; None if there is none.

        Raises:
            CorruptRows: the store does not have one of the trees.
        """
        ...

    def files(self, digest: str, paths: Iterable[str]) -> Mapping[str, Entry]:
        """Return the entries of those `paths` that are files or links of a tree.

        Raises CorruptRows.
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
        """Put a folder into the store. Content that the store already has is not stored again.

        Args:
            folder: folder to store.
            beside: further folders of the state, by name. If all of them are empty, the digest is
                that of `folder` alone.
            known_digests: digests of files by stamp. A file with a known stamp is not read. The
                method updates it for the next call.
            bounds: bounds of the content.
            watch: watch that reports which folders did not change, and which stamps are not
                reliable because the file system does not stamp all writes. Without it all folders
                are walked, and all files on such a file system are read.

        Raises:
            TreeOverrun: the folder exceeds `bounds`. Nothing refers to the content that was stored
                before that.
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
                left out.
            owner: user and group id of everything that is made; by default the caller's.
            watch: watch to set on the folders, for `keep`.

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
    """Path inside -> folder of this host that commands may read. It is no part of the state."""

    @property
    def tree(self) -> Path:
        """Folder of the tree itself."""
        return self.path / "tree"

    @property
    def beside(self) -> dict[str, Path]:
        """Further folders of the state, by name: temporary files and home; the shell's state."""
        return {name: self.path / name for name in ("tmp", "shell")}

    @property
    def binds(self) -> dict[str, str]:
        """Path inside -> folder of this host."""
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
    """Digest of that state."""
    dropped: tuple[str, ...] = ()
    """Pipes, sockets and devices that the command made. They are not stored."""
    undone: str = ""
    """Reason why the command's changes were undone. It also ends the command's `stderr`."""


class Commands(Protocol):
    """Runner of commands on a work folder, one at a time."""

    def run(
        self, argv: tuple[str, ...], stdin: bytes, limits: Limits, is_over: Callable[[], bool]
    ) -> Completed:
        """Run a command to its end or its limit, and end its whole process tree.

        The command holds a slot of the host.

        Args:
            argv: command, as in `sandbox.interface.Session.run`.
            stdin: input of the command.
            limits: limits of the command.
            is_over: function called several times a second. True ends the command.

        Raises:
            SandboxUnavailable: it could not be run.
        """
        ...


class HoldsWorkspaces(Protocol):
    """Sandbox that can run commands on a folder of this host."""

    name: str

    def owner(self, folder: WorkFolder) -> int | None:
        """Return the user and group id that the folder's files need; None for the caller's own."""
        ...

    def commands(self, folder: WorkFolder) -> AbstractContextManager[Commands]:
        """Return a runner of commands on the folder. It holds no slot between them."""
        ...
