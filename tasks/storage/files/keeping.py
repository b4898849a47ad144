"""Storage of folders that untrusted programs wrote, and writer of stored trees into empty folders.

No link is followed, no pipe is opened, and reading stops at the bounds of size and number.
"""

import hashlib
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from sandbox.workspace.interface import Stamp, TreeBounds, TreeOverrun
from sandbox.workspace.watching import NO_WATCH, FolderWatch, Watched, tells_changes
from tasks.storage.files.tree_changes import FILE, FOLDER, LINK

_MIB = 2**20
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MAKE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC

Named = tuple[str, str, int, str]
"""Entry of a folder's list: (name, kind, mode, digest or target)."""


class Objects(Protocol):
    """Store of files' contents and folders' lists of entries."""

    def put(self, digest: str, content: bytes) -> None:
        """Store a file's content under its digest."""
        ...

    def add_folder(self, entries: tuple[Named, ...]) -> str:
        """Store a folder's list of entries and return the list's digest."""
        ...


@dataclass
class WalkedFolder:
    """Contents of a folder and of all folders below it."""

    entries: tuple[Named, ...] = ()
    digests: dict[Stamp, str] = field(default_factory=dict[Stamp, str])
    """Digests of the files directly in the folder, by stamp (see `stamp_of`)."""
    n_bytes: int = 0
    n_files: int = 0
    levels: int = 1
    """Depth of the tree, including the folder itself. A folder without subfolders has 1."""
    below: list["WalkedFolder"] = field(default_factory=list["WalkedFolder"])

    def add(self, below: "WalkedFolder") -> None:
        """Add a folder directly below this one."""
        self.below.append(below)
        self.n_bytes += below.n_bytes
        self.n_files += below.n_files
        self.levels = max(self.levels, below.levels + 1)

    def all_digests(self) -> Iterator[dict[Stamp, str]]:
        """Yield `digests` of this folder and of each folder below it."""
        yield self.digests
        for folder in self.below:
            yield from folder.all_digests()


class Keeping:
    """One walk over a workspace's folders that stores their contents.

    Args:
        objects: store.
        known_digests: digests by stamp. A file with a known stamp is not read, unless it has
            several names (another name may have been written), or its file system does not stamp
            all writes.
        bounds: bounds of the contents.
        watch: watch of the folders. A folder without changes since the last walk is not walked
            again.
    """

    def __init__(
        self,
        objects: Objects,
        known_digests: Mapping[Stamp, str],
        bounds: TreeBounds,
        watch: FolderWatch | None,
    ) -> None:
        self._objects, self._known_digests, self._bounds, self._watch = (
            objects,
            known_digests,
            bounds,
            watch,
        )
        self._stored = frozenset(known_digests.values())
        self._bytes = self._files = 0
        self._has_links = self._has_recalled = False
        self.digests: dict[Stamp, str] = {}
        self.dropped: list[str] = []

    def entries(self, folder: Path) -> tuple[Named, ...]:
        """Store everything below a folder, and return the folder's list."""
        contents = self._watch.recall(folder) if self._watch else None
        if isinstance(contents, WalkedFolder):
            self._count_again(contents, 1)
        else:
            before = self._bytes, self._files
            contents = self._walk(folder)
            if self._has_links and self._has_recalled:
                self._bytes, self._files = before
                contents = self._walk(folder)
            if self._watch:
                self._watch.remember(folder, contents)
        for digests in contents.all_digests():
            self.digests.update(digests)
        return contents.entries

    def _walk(self, folder: Path) -> WalkedFolder:
        """Walk a folder. Contents of unchanged subfolders come from the last walk.

        If a file has several names, no further folder is taken from the last walk, and the whole
        walk must be repeated.
        """
        status = folder.stat()
        self._top, self._is_stamped, self._has_links, self._has_recalled = (
            folder,
            tells_changes(status.st_dev),
            False,
            False,
        )
        _open_to_its_owner(None, folder, status, 0o755)
        with open_descriptor(folder, OPEN_FOLDER) as place:
            contents = self._folder(place, "", 1, NO_WATCH)
        if self._has_links and self._watch:
            self._watch.forget_folders(folder)
        return contents

    def _count(self, n_bytes: int, n_files: int) -> None:
        self._bytes += n_bytes
        self._files += n_files
        if self._files > self._bounds.files:
            raise TreeOverrun(f"more than {self._bounds.files} files and folders")
        if self._bytes > self._bounds.total_mb * _MIB:
            raise TreeOverrun(f"more than {self._bounds.total_mb} MiB in all files together")

    def _count_again(self, contents: WalkedFolder, depth: int) -> None:
        """Count a folder that is not walked again, and check the bounds."""
        self._count(contents.n_bytes, contents.n_files)
        if depth + contents.levels - 1 > self._bounds.depth:
            raise TreeOverrun(f"folders deeper than {self._bounds.depth} levels")

    def _folder(self, place: int, path: str, depth: int, parent: int) -> WalkedFolder:
        if depth > self._bounds.depth:
            raise TreeOverrun(f"folders deeper than {self._bounds.depth} levels")
        watched = (
            self._watch.watch(place, self._top, parent)
            if self._watch
            else Watched(NO_WATCH, None, None)
        )
        if isinstance(watched.remembered, WalkedFolder):
            self._count_again(watched.remembered, depth)
            self._has_recalled = True
            return watched.remembered
        with os.scandir(place) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
        self._count(0, len(entries))
        doubted = () if self._is_stamped else watched.written
        here, walked = (
            _Here(place, depth, watched.number, doubted),
            WalkedFolder(n_files=len(entries)),
        )
        rows = [self._entry(here, f"{path}{entry.name}", entry, walked) for entry in entries]
        walked.entries = tuple(row for row in rows if row is not None)
        if self._watch:
            self._watch.remember_folder(watched.number, walked)
        return walked

    def _entry(
        self, here: "_Here", path: str, entry: "os.DirEntry[str]", walked: WalkedFolder
    ) -> Named | None:
        place = here.place
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return entry.name, LINK, 0o777, os.readlink(entry.name, dir_fd=place)
        if stat.S_ISDIR(status.st_mode):
            mode = _open_to_its_owner(place, entry.name, status, 0o700)
            with open_descriptor(entry.name, OPEN_FOLDER, place) as opened_below:
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
        walked: WalkedFolder,
    ) -> str:
        if status.st_size > self._bounds.file_mb * _MIB:
            raise TreeOverrun(
                f"{path!r} has {status.st_size} bytes, more than {self._bounds.file_mb} MiB"
            )
        walked.n_bytes += status.st_size
        self._count(status.st_size, 0)
        stamp = stamp_of(status)
        digest = None if is_doubted else self._known_digests.get(stamp)
        if digest is None:
            with open_descriptor(name, _OPEN_FILE, here.place) as descriptor:
                content = _read_all(descriptor, status.st_size)
                stamp = stamp_of(os.fstat(descriptor))
            digest = hashlib.sha256(content).hexdigest()
            if digest not in self._stored:
                self._objects.put(digest, content)
        walked.digests[stamp] = digest
        return digest


class _Here(NamedTuple):
    """Open folder that the walk is currently in."""

    place: int
    depth: int
    watch: int
    doubted: Collection[str] | None
    """Names of files to read although their stamp is known; None for all files."""


@contextmanager
def open_descriptor(path: str | Path, flags: int, folder: int | None = None) -> Iterator[int]:
    """Open a file or folder, and close its descriptor at the end of the block."""
    descriptor = os.open(path, flags, 0o600, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the part of a file's status that changes with the file's content."""
    return Stamp(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


def _open_to_its_owner(
    folder: int | None, name: str | Path, status: os.stat_result, needed: int
) -> int:
    """Set the mode of an entry and return it.

    The mode has at least the bits `needed`, and only rights to read, write and execute.
    """
    mode = stat.S_IMODE(status.st_mode) & 0o777 | needed
    if mode != stat.S_IMODE(status.st_mode):
        os.chmod(name, mode, dir_fd=folder)
    return mode


def _read_all(descriptor: int, size: int) -> bytes:
    """Read a file whose size was `size` bytes a moment ago."""
    parts = [os.read(descriptor, size + 1)]
    while parts[-1] and len(parts[0]) != size:
        parts.append(os.read(descriptor, _MIB))
    return b"".join(parts)


def write_all(descriptor: int, content: bytes) -> None:
    """Write all bytes to an open file."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


class RecentContents:
    """Cache of recently read contents, since workspaces of one project share most files.

    Several threads may use it.

    Args:
        get: reads and verifies the content with a digest.
        most_bytes: maximum size of all contents. The least recently used content is dropped first.
    """

    def __init__(self, get: Callable[[str], bytes], most_bytes: int = 64 * 2**20) -> None:
        self._get, self._most_bytes = get, most_bytes
        self._contents: OrderedDict[str, bytes] = OrderedDict()
        self._n_bytes = 0
        self._lock = threading.Lock()

    def get(self, digest: str) -> bytes:
        """Return the content with a digest. Raises the errors of the argument `get`."""
        with self._lock:
            if (cached := self._contents.get(digest)) is not None:
                self._contents.move_to_end(digest)
                return cached
        content = self._get(digest)
        with self._lock:
            if digest not in self._contents:
                self._contents[digest] = content
                self._n_bytes += len(content)
            while self._n_bytes > self._most_bytes:
                self._n_bytes -= len(self._contents.popitem(last=False)[1])
        return content


class Filling:
    """Writer of a workspace's folders.

    Args:
        get: returns a file's content by digest.
        row: returns a folder's list by digest.
        owner: user and group id of all files and folders; None for those of the process.
        watch: watch that the folders join once they are full, so unchanged folders need no walk.
    """

    def __init__(
        self,
        get: Callable[[str], bytes],
        row: Callable[[str], dict[str, Any]],
        owner: int | None,
        watch: FolderWatch | None,
    ) -> None:
        self._get, self._row, self._owner, self._watch = get, row, owner, watch
        self.digests: dict[Stamp, str] = {}

    def fill(self, folder: Path, row: dict[str, Any]) -> None:
        """Write a folder's entries and everything below them."""
        self._top = folder
        with open_descriptor(folder, OPEN_FOLDER) as place:
            filled, below = self._fill(place, row)
            self._watch_from_now(place, filled, below)
        if self._watch is not None:
            self._watch.remember(folder, filled)
        for digests in filled.all_digests():
            self.digests |= digests

    def _fill(self, place: int, row: dict[str, Any]) -> tuple[WalkedFolder, list[int]]:
        """Fill a folder. Return its contents, and the watches of the folders directly below it."""
        filled, watches = (
            WalkedFolder(
                tuple(tuple(entry) for entry in row["entries"]), n_files=len(row["entries"])
            ),
            list[int](),
        )
        for name, kind, mode, what in row["entries"]:
            if kind == LINK:
                os.symlink(what, name, dir_fd=place)
                if self._owner is not None:
                    os.chown(name, self._owner, self._owner, dir_fd=place, follow_symlinks=False)
            elif kind == FILE:
                filled.n_bytes += self._file(place, name, mode, what, filled)
            else:
                os.mkdir(name, 0o700, dir_fd=place)
                with open_descriptor(name, OPEN_FOLDER, place) as subfolder:
                    below, numbers = self._fill(subfolder, self._row(what))
                    self._give_to_owner(subfolder, mode)
                    watches.append(self._watch_from_now(subfolder, below, numbers))
                filled.add(below)
        return filled, watches

    def _file(self, place: int, name: str, mode: int, digest: str, filled: WalkedFolder) -> int:
        content = self._get(digest)
        with open_descriptor(name, MAKE_FILE, place) as file:
            write_all(file, content)
            self._give_to_owner(file, mode)
            filled.digests[stamp_of(os.fstat(file))] = digest
        return len(content)

    def _give_to_owner(self, descriptor: int, mode: int) -> None:
        if self._owner is not None:
            os.fchown(descriptor, self._owner, self._owner)
        os.fchmod(descriptor, mode)

    def _watch_from_now(self, folder: int, filled: WalkedFolder, below: list[int]) -> int:
        """Watch a full folder. An earlier watch would report an event for each written entry."""
        if self._watch is None:
            return NO_WATCH
        number = self._watch.watch(folder, self._top).number
        for watch in below:
            self._watch.set_parent(watch, number)
        self._watch.remember_folder(number, filled)
        return number
