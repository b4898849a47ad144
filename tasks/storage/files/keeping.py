"""Reads folders that programs wrote, for the store: no link is followed, no pipe opened, no more read than the bounds allow."""

import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from sandbox.workspace.interface import Stamp, TreeBounds, TreeOverrun
from sandbox.workspace.watching import NO_WATCH, FolderWatch, Watched, tells_changes
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
    """Digests of the folder's own files."""
    n_bytes: int = 0
    n_files: int = 0
    levels: int = 1
    below: list["Walked"] = field(default_factory=list["Walked"])

    def add(self, below: "Walked") -> None:
        """Add a folder of this one."""
        self.below.append(below)
        self.n_bytes += below.n_bytes
        self.n_files += below.n_files
        self.levels = max(self.levels, below.levels + 1)

    def all_seen(self) -> Iterator[dict[Stamp, str]]:
        """Yield the digests of each folder's own files."""
        yield self.seen
        for folder in self.below:
            yield from folder.all_seen()


class Keeping:
    """One walk over a workspace's folders: what was found, and how much.

    Args:
        known: digests by stamp. A file whose stamp is known is not read, unless it has several names, of which another may have
            been written, or was written where that leaves no stamp.
        watch: knows all that happened until now. A folder in which nothing changed since the last walk is not walked again.
    """

    def __init__(
        self,
        objects: Objects,
        known: Mapping[Stamp, str],
        bounds: TreeBounds,
        watch: FolderWatch | None,
    ) -> None:
        self._objects, self._known, self._bounds, self._watch = objects, known, bounds, watch
        self._stored = frozenset(known.values())
        self._bytes = self._files = 0
        self._has_links = self._has_recalled = False
        self.seen: dict[Stamp, str] = {}
        self.dropped: list[str] = []

    def entries(self, folder: Path) -> tuple[Named, ...]:
        """A folder's list. All that the list names is in the store."""
        found = self._watch.recall(folder) if self._watch else None
        if isinstance(found, Walked):
            self._count_again(found, 1)
        else:
            before = self._bytes, self._files
            found = self._walk(folder)
            if self._has_links and self._has_recalled:
                self._bytes, self._files = before
                found = self._walk(folder)
            if self._watch:
                self._watch.remember(folder, found)
        for seen in found.all_seen():
            self.seen.update(seen)
        return found.entries

    def _walk(self, folder: Path) -> Walked:
        """Walk a folder; those below in which nothing changed are recalled.

        Where a file has several names, none is recalled from then on, and the walk has to be done again.
        """
        status = folder.stat()
        self._top, self._is_stamped, self._has_links, self._has_recalled = (
            folder,
            tells_changes(status.st_dev),
            False,
            False,
        )
        _open_to_its_owner(None, folder, status, 0o755)
        with opened(folder, OPEN_FOLDER) as place:
            found = self._folder(place, "", 1, NO_WATCH)
        if self._has_links and self._watch:
            self._watch.forget_folders(folder)
        return found

    def _count(self, n_bytes: int, n_files: int) -> None:
        self._bytes += n_bytes
        self._files += n_files
        if self._files > self._bounds.files:
            raise TreeOverrun(f"more than {self._bounds.files} files and folders")
        if self._bytes > self._bounds.total_mb * _MIB:
            raise TreeOverrun(f"more than {self._bounds.total_mb} MiB in all files together")

    def _count_again(self, found: Walked, depth: int) -> None:
        """Hold a folder that is not walked again against the bounds."""
        self._count(found.n_bytes, found.n_files)
        if depth + found.levels - 1 > self._bounds.depth:
            raise TreeOverrun(f"folders deeper than {self._bounds.depth} levels")

    def _folder(self, place: int, path: str, depth: int, parent: int) -> Walked:
        if depth > self._bounds.depth:
            raise TreeOverrun(f"folders deeper than {self._bounds.depth} levels")
        watched = (
            self._watch.watch(place, self._top, parent)
            if self._watch
            else Watched(NO_WATCH, None, None)
        )
        if isinstance(watched.remembered, Walked):
            self._count_again(watched.remembered, depth)
            self._has_recalled = True
            return watched.remembered
        with os.scandir(place) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        self._count(0, len(entries))
        doubted = () if self._is_stamped else watched.written
        here, walked = _Here(place, depth, watched.number, doubted), Walked(n_files=len(entries))
        rows = [self._entry(here, f"{path}{entry.name}", entry, walked) for entry in entries]
        walked.entries = tuple(row for row in rows if row is not None)
        if self._watch:
            self._watch.remember_folder(watched.number, walked)
        return walked

    def _entry(
        self, here: "_Here", path: str, entry: "os.DirEntry[str]", walked: Walked
    ) -> Named | None:
        place = here.place
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return entry.name, LINK, 0o777, os.readlink(entry.name, dir_fd=place)
        if stat.S_ISDIR(status.st_mode):
            mode = _open_to_its_owner(place, entry.name, status, 0o700)
            with opened(entry.name, OPEN_FOLDER, place) as opened_below:
                below = self._folder(opened_below, f"{path}/", here.depth + 1, here.watch)
            walked.add(below)
            return entry.name, FOLDER, mode, self._objects.add_folder(below.entries)
        if stat.S_ISREG(status.st_mode):
            mode = _open_to_its_owner(place, entry.name, status, 0o400)
            has_links = status.st_nlink > 1
            self._has_links = self._has_links or has_links
            is_doubted = here.doubted is None or entry.name in here.doubted or has_links
            return (
                entry.name,
                FILE,
                mode,
                self._file(here, path, entry.name, status, is_doubted, walked),
            )
        os.unlink(entry.name, dir_fd=place)
        self.dropped.append(path)
        return None

    def _file(
        self,
        here: "_Here",
        path: str,
        name: str,
        status: os.stat_result,
        is_doubted: bool,
        walked: Walked,
    ) -> str:
        if status.st_size > self._bounds.file_mb * _MIB:
            raise TreeOverrun(
                f"{path!r} has {status.st_size} bytes, more than {self._bounds.file_mb} MiB"
            )
        walked.n_bytes += status.st_size
        self._count(status.st_size, 0)
        stamp = stamp_of(status)
        digest = None if is_doubted else self._known.get(stamp)
        if digest is None:
            with opened(name, _OPEN_FILE, here.place) as descriptor:
                content = _read_all(descriptor, status.st_size)
                stamp = stamp_of(os.fstat(descriptor))
            digest = hashlib.sha256(content).hexdigest()
            if digest not in self._stored:
                self._objects.put(digest, content)
        walked.seen[stamp] = digest
        return digest


class _Here(NamedTuple):
    """The open folder that is walked."""

    place: int
    depth: int
    watch: int
    doubted: Collection[str] | None
    """Files that are read whatever their stamps say; None for all."""


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
    return Stamp(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


def _open_to_its_owner(
    folder: int | None, name: str | Path, status: os.stat_result, needed: int
) -> int:
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
