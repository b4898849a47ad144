"""A place where an agent runs commands, and what it is made of.

No process outlives a command, so the files are the state: a workspace opened from a snapshot goes on where that was taken.
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
"""Bounds of one command, where the caller names none."""


SHELL_PLACE = "/shell"
"""Where a command finds the folder that carries the shell's state."""
ENVIRONMENT_PLACE = "/environment"
"""Where a command finds the packages that it runs with, where it has some of its own."""
_IMAGE = "image:"


def in_image(image: str, programs: str) -> str:
    """The environment that an image has.

    Args:
        image: its name, pinned by digest.
        programs: its folder of programs, `python` among them.
    """
    return f"{_IMAGE}{programs}:{image}"


def image_of(environment: str) -> str:
    """The image that an environment stands for; empty where it is a digest of packages, or Parley's own."""
    return (
        environment.removeprefix(_IMAGE).partition(":")[2] if environment.startswith(_IMAGE) else ""
    )


def programs_of(environment: str) -> str:
    """The folder of an environment's programs, `python` among them, as a command finds it."""
    return (
        environment.removeprefix(_IMAGE).partition(":")[0]
        if image_of(environment)
        else f"{ENVIRONMENT_PLACE}/bin"
    )


class TreeBounds(Frozen):
    """How much a workspace may hold."""

    total_mb: int = Field(default=1024, ge=1)
    file_mb: int = Field(default=128, ge=1)
    files: int = Field(default=100_000, ge=1)
    """Files, folders and links."""
    depth: int = Field(default=64, ge=1)


class TreeOverrun(Exception):
    """A workspace holds more than its bounds. The command's author is to blame, not the sandbox."""


class Stamp(NamedTuple):
    """What changes with a file's content. A program can set a file's `mtime` back, and no program can set its `ctime`."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True)
class Kept:
    """A folder that was put into the store."""

    digest: str
    dropped: tuple[str, ...] = ()
    """Paths of what cannot be kept (pipes, sockets, devices): they were removed from the folder, too."""


class Entry(NamedTuple):
    """A file or a link of a tree."""

    mode: int
    what: str
    """Digest of a file's content; the target of a link."""
    is_link: bool = False


class Trees(Protocol):
    """A store of folders by content."""

    def get(self, digest: str) -> bytes:
        """A file's content. Raises CorruptRows where it is not there."""
        ...

    def changes(self, old: str, new: str) -> Mapping[str, tuple[Entry | None, Entry | None]]:
        """Files and links that differ between two trees, by path: before and after, None where there is none.

        Raises:
            CorruptRows: the store does not hold a digest.
        """
        ...

    def files(self, digest: str, paths: Iterable[str]) -> Mapping[str, Entry]:
        """Those of these paths that are files or links of a tree. Raises CorruptRows."""
        ...

    def keep(
        self,
        folder: Path,
        beside: Mapping[str, Path],
        known: dict[Stamp, str],
        bounds: TreeBounds,
        watch: FolderWatch | None = None,
    ) -> Kept:
        """Put a folder into the store; what the store holds already is not stored again.

        Args:
            beside: more folders of the state, by name. Where all are empty, the digest is the folder's alone.
            known: digests of files by stamp; a file with a known stamp is not read. Renewed for the next call.
            watch: tells which folders did not change, and whose stamps cannot be believed where the file system does not stamp
                all that is written. Without it all folders are walked, and all files are read there.

        Raises:
            TreeOverrun: it holds more than `bounds`. Nothing refers to what was stored until then.
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
        """Fill empty folders with what was kept; returns what `keep` may take as known.

        Args:
            beside: where the state's other folders go; those that are not named are left out.
            owner: user and group id of all that is made; the caller's where it is None.
            watch: watches the folders from then on, for `keep`.

        Raises:
            CorruptRows: the store does not hold the digest, or holds spoiled content.
        """
        ...


@dataclass(frozen=True)
class WorkFolder:
    """A workspace's files on this host, and where its commands see them."""

    path: Path
    place: str = "/testbed"
    shown: Mapping[str, str] = field(default_factory=dict[str, str])
    """Place inside -> folder of this host that commands may read: no part of the state."""

    @property
    def tree(self) -> Path:
        """The files that the work is about."""
        return self.path / "tree"

    @property
    def beside(self) -> dict[str, Path]:
        """The rest of the state, by name: temporary files and home; what the shell carries from one command to the next."""
        return {name: self.path / name for name in ("tmp", "shell")}

    @property
    def binds(self) -> dict[str, str]:
        """Place inside -> folder of this host."""
        return {
            self.place: str(self.tree),
            "/tmp": str(self.path / "tmp"),
            SHELL_PLACE: str(self.path / "shell"),
        }


@dataclass(frozen=True)
class Done:
    """A command, and the state that it left."""

    completed: Completed
    tree: str
    """Digest of that state."""
    dropped: tuple[str, ...] = ()
    """Pipes, sockets and devices that it made: they are not kept."""
    undone: str = ""
    """Why nothing of its changes was kept; the end of its `stderr`, too."""


class Commands(Protocol):
    """Runs commands on a work folder, one at a time."""

    def run(
        self, argv: tuple[str, ...], stdin: bytes, limits: Limits, is_over: Callable[[], bool]
    ) -> Completed:
        """Run a command to its end or its limit, holding a slot of the host meanwhile, and end its whole process tree.

        Args:
            argv: as `sandbox.interface.Session.run` has it.
            is_over: asked several times a second; true ends the command.

        Raises:
            SandboxUnavailable: it could not be run.
        """
        ...


class HoldsWorkspaces(Protocol):
    """A sandbox that can run commands on a folder of this host."""

    name: str

    def owner(self, folder: WorkFolder) -> int | None:
        """User and group id that the folder's files need; None for the caller's own."""
        ...

    def commands(self, folder: WorkFolder) -> AbstractContextManager[Commands]:
        """What runs commands there. Holds no slot between them."""
        ...
