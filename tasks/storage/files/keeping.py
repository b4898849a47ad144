"""Reads folders that programs wrote, for the store: no link is followed, no pipe opened, no more read than the bounds allow."""

import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sandbox.workspace.interface import Stamp, TreeBounds, TreeOverrun
from sandbox.workspace.watching import FolderWatch, tells_changes
from tasks.storage.files.tree_changes import FILE, FOLDER, LINK

_MIB = 2**20
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MAKE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC

Named = tuple[str, str, int, str]
"""An entry of a folder's list: name, kind, mode, and digest or target."""


class Objects(Protocol):
    """Where contents and folders' lists go."""

    def put(self, digest: str, content: bytes) -> None:
        """Store a file's content, whose digest this is."""
        ...

    def add_folder(self, entries: tuple[Named, ...]) -> str:
        """Store a folder's list; its digest."""
        ...


@dataclass
class Walked:
    """What was found in a folder and all below it."""

    entries: tuple[Named, ...] = ()
    seen: dict[Stamp, str] = field(default_factory=dict[Stamp, str])
    n_bytes: int = 0
    n_files: int = 0


class Keeping:
    """One walk over a workspace's folders: what was found, and how much.

    Args:
        known: digests by stamp. A file whose stamp is known is not read, unless it has several names, of which another may have
            been written, or was written where that leaves no stamp.
        watch: knows all that happened until now. A folder in which nothing changed since the last walk is not walked again.
    """

    def __init__(self, objects: Objects, known: Mapping[Stamp, str], bounds: TreeBounds, watch: FolderWatch | None) -> None:
        self._objects, self._known, self._bounds, self._watch = objects, known, bounds, watch
        self._stored = frozenset(known.values())
        self._bytes = self._files = 0
        self.seen: dict[Stamp, str] = {}
        self.dropped: list[str] = []

    def entries(self, folder: Path) -> tuple[Named, ...]:
        """A folder's list. All that the list names is in the store."""
        found = self._watch.recall(folder) if self._watch else None
        if isinstance(found, Walked):
            self._count(found.n_bytes, found.n_files)
        else:
            found = self._walk(folder)
            if self._watch:
                self._watch.remember(folder, found)
        self.seen.update(found.seen)
        return found.entries

    def _walk(self, folder: Path) -> Walked:
        status = folder.stat()
        self._top, self._is_stamped, self._walked = folder, tells_changes(status.st_dev), Walked()
        _open_to_its_owner(None, folder, status, 0o755)
        with opened(folder, OPEN_FOLDER) as place:
            self._walked.entries = self._entries(place, "", 1)
        return self._walked

    def _count(self, n_bytes: int, n_files: int) -> None:
        self._bytes += n_bytes
        self._files += n_files
        if self._files > self._bounds.files:
            raise TreeOverrun(f"more than {self._bounds.files} files and folders")
        if self._bytes > self._bounds.total_mb * _MIB:
            raise TreeOverrun(f"more than {self._bounds.total_mb} MiB in all files together")

    def _entries(self, place: int, path: str, depth: int) -> tuple[Named, ...]:
        if depth > self._bounds.depth:
            raise TreeOverrun(f"folders deeper than {self._bounds.depth} levels")
        with os.scandir(place) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        self._walked.n_files += len(entries)
        self._count(0, len(entries))
        doubted = self._watch.written(place, self._top) if self._watch else None
        if self._is_stamped:
            doubted = ()
        rows = [self._entry(place, f"{path}{entry.name}", entry, depth, doubted) for entry in entries]
        return tuple(row for row in rows if row is not None)

    def _entry(
        self, place: int, path: str, entry: "os.DirEntry[str]", depth: int, doubted: Collection[str] | None
    ) -> Named | None:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return entry.name, LINK, 0o777, os.readlink(entry.name, dir_fd=place)
        if stat.S_ISDIR(status.st_mode):
            mode = _open_to_its_owner(place, entry.name, status, 0o700)
            with opened(entry.name, OPEN_FOLDER, place) as below:
                return entry.name, FOLDER, mode, self._objects.add_folder(self._entries(below, f"{path}/", depth + 1))
        if stat.S_ISREG(status.st_mode):
            mode = _open_to_its_owner(place, entry.name, status, 0o400)
            is_doubted = doubted is None or entry.name in doubted or status.st_nlink > 1
            return entry.name, FILE, mode, self._file(place, path, entry.name, status, is_doubted)
        os.unlink(entry.name, dir_fd=place)
        self.dropped.append(path)
        return None

    def _file(self, place: int, path: str, name: str, status: os.stat_result, is_doubted: bool) -> str:
        if status.st_size > self._bounds.file_mb * _MIB:
            raise TreeOverrun(f"{path!r} has {status.st_size} bytes, more than {self._bounds.file_mb} MiB")
        self._walked.n_bytes += status.st_size
        self._count(status.st_size, 0)
        stamp = stamp_of(status)
        digest = None if is_doubted else self._known.get(stamp)
        if digest is None:
            with opened(name, _OPEN_FILE, place) as descriptor:
                content = _read_all(descriptor, status.st_size)
                stamp = stamp_of(os.fstat(descriptor))
            digest = hashlib.sha256(content).hexdigest()
            if digest not in self._stored:
                self._objects.put(digest, content)
        self._walked.seen[stamp] = digest
        return digest


@contextmanager
def opened(path: str | Path, flags: int, folder: int | None = None) -> Iterator[int]:
    """A descriptor that is closed afterwards."""
    descriptor = os.open(path, flags, 0o600, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def stamp_of(status: os.stat_result) -> Stamp:
    """What of a file's status changes with its content."""
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _open_to_its_owner(folder: int | None, name: str | Path, status: os.stat_result, needed: int) -> int:
    """The entry's mode from now on: at least `needed`, and nothing beside the rights to read, write and execute."""
    mode = stat.S_IMODE(status.st_mode) & 0o777 | needed
    if mode != stat.S_IMODE(status.st_mode):
        os.chmod(name, mode, dir_fd=folder)
    return mode


def _read_all(descriptor: int, size: int) -> bytes:
    """A file that had `size` bytes a moment ago."""
    parts = [os.read(descriptor, size + 1)]
    while parts[-1] and len(parts[0]) != size:
        parts.append(os.read(descriptor, _MIB))
    return b"".join(parts)


def write_all(descriptor: int, content: bytes) -> None:
    """Write a whole content to an open file."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
