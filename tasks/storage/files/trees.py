"""Folders by content: each file and each folder's list is an object under the sha256 of its bytes, written once.

A folder's list names its entries with kind, mode, and digest (of a file's bytes, or a folder's list) or target (of a link). So a
folder's digest covers all below it, and to keep it again stores only the files and lists that changed. Lists are stored after
what they name: a digest that was returned is whole, whenever a kill came. Times, owners and hard links are not kept.

Programs wrote these folders. No link is followed, no pipe opened, no more read than the bounds allow.
"""

import functools
import hashlib
import json
import os
import stat
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from sandbox.workspace.interface import Entry, Kept, Stamp, TreeBounds, TreeOverrun
from schemas.errors import CorruptRows
from tasks.storage.disk import naming_full_disk
from tasks.storage.files.tree_changes import FILE, FOLDER, LINK, entry_at, replaced, tree_changes

_MIB = 2**20
_CLOCK_NS = 50_000_000
"""Above the grain of a file system's clock: of two changes within one grain, the second leaves no trace in a stamp."""
_TELL_CHANGES = {"ext4", "xfs", "btrfs"}
"""File systems that stamp what is written through a mapping, too. tmpfs does not; of others we do not know."""
_ABANDONED_S = 24 * 3600.0
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_MAKE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TreeStore:
    """See `sandbox.workspace.interface.Trees`. Several processes may use one folder.

    Args:
        path: the store's folder; made when something is stored.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path / "partial"

    def keep(
        self,
        folder: Path,
        beside: Mapping[str, Path] | None = None,
        known: dict[Stamp, str] | None = None,
        bounds: TreeBounds | None = None,
    ) -> Kept:
        walk = _Keeping(self, known or {}, _tells_changes(folder.stat().st_dev), bounds or TreeBounds())
        row = walk.row(folder)
        others = {name: other for name, path in (beside or {}).items() if (other := walk.row(path))["entries"]}
        if others:
            row["beside"] = {name: self.add_row(other) for name, other in others.items()}
        kept = Kept(self.add_row(row), tuple(walk.dropped))
        if known is not None:
            known.clear()
            known.update(_settled(walk.seen))
        return kept

    def restore(
        self, digest: str, folder: Path, beside: Mapping[str, Path] | None = None, owner: int | None = None
    ) -> dict[Stamp, str]:
        seen: dict[Stamp, str] = {}
        row = self._row(digest)
        self._fill(folder, row, owner, seen)
        for name, place in (beside or {}).items():
            if name in row.get("beside", {}):
                self._fill(place, self._row(row["beside"][name]), owner, seen)
        return _settled(seen)

    def without_state(self, digest: str) -> str:
        """Digest of the files alone, without what a workspace carries beside them: equal files give equal digests.

        Raises:
            CorruptRows: as `restore`.
        """
        return self.add_row({"entries": self._row(digest)["entries"]})

    def changes(self, old: str, new: str) -> dict[str, tuple[Entry | None, Entry | None]]:
        return tree_changes(self._row, old, new)

    def files(self, digest: str, paths: Iterable[str]) -> dict[str, Entry]:
        return {path: entry for path in paths if (entry := entry_at(self._row, digest, path)) is not None}

    def with_files(self, digest: str, files: Mapping[str, Entry | None]) -> str:
        """Digest of a folder with other files at these paths, or none.

        Raises:
            CorruptRows: as `restore`.
        """
        return self.add_row({"entries": replaced(self._row, self.add_row, self._row(digest)["entries"], files)})

    def joined(self, *digests: str) -> str:
        """Digest of a folder with the entries of several, which have no name in common. Raises CorruptRows."""
        entries = [entry for digest in digests for entry in self._row(digest)["entries"]]
        return self.add_row({"entries": sorted(entries, key=lambda entry: entry[0])})

    def add(self, content: bytes) -> str:
        """Store one object unless it is there; its digest.

        Raises:
            DiskFull: no room.
        """
        digest = hashlib.sha256(content).hexdigest()
        self.put(digest, content)
        return digest

    def put(self, digest: str, content: bytes) -> None:
        """Store one object, whose digest this is, unless it is there. Raises DiskFull."""
        place = self._place(digest)
        if not os.path.exists(place):
            with naming_full_disk("a workspace's file", self._path, len(content)):
                self._write(place, zlib.compress(content, 1))

    def get(self, digest: str) -> bytes:
        """One object.

        Raises:
            CorruptRows: it is not there, or not what was stored.
        """
        place = self._place(digest)
        try:
            with open(place, "rb", buffering=0) as file:
                content = zlib.decompress(file.readall())
        except (OSError, zlib.error) as error:
            raise CorruptRows(f"{place}: no object of the tree store ({error}); run what made it again") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise CorruptRows(f"{place}: its content is not what its name says; remove it and run what made it again")
        return content

    def _place(self, digest: str) -> str:
        return f"{self._path}/{digest[:2]}/{digest[2:]}"

    def _write(self, place: str, data: bytes) -> None:
        temporary = self._partial / f"{os.getpid()}-{token_hex(8)}"
        if not self._partial.is_dir():
            self._partial.mkdir(parents=True, exist_ok=True)
        try:
            with _opened(temporary, _MAKE_FILE) as descriptor:
                _write_all(descriptor, data)
            try:
                os.replace(temporary, place)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(place), exist_ok=True)
                os.replace(temporary, place)
        except BaseException:  # a signal too: a half-written file is of no use
            with suppress(OSError):  # it may be gone, or was never made; what went wrong is raised
                temporary.unlink()
            raise

    def remove_abandoned(self) -> None:
        """Remove what writers have left unfinished that were killed more than a day ago."""
        with suppress(FileNotFoundError):  # nobody has written yet
            for path in self._partial.iterdir():
                with suppress(OSError):  # its writer, or another driver, was first
                    if time.time() - path.stat().st_mtime > _ABANDONED_S:
                        path.unlink()

    def add_row(self, row: Mapping[str, Any]) -> str:
        """Store a folder's list; its digest. Raises DiskFull."""
        return self.add(json.dumps(row, sort_keys=True, separators=(",", ":")).encode("ascii"))

    def _row(self, digest: str) -> dict[str, Any]:
        try:
            return json.loads(self.get(digest))
        except ValueError as error:
            raise CorruptRows(f"{digest}: names no folder of the tree store {self._path}") from error

    def _fill(self, folder: Path, row: dict[str, Any], owner: int | None, seen: dict[Stamp, str]) -> None:
        with _opened(folder, _OPEN_FOLDER) as place:
            self._fill_open(place, row, owner, seen)

    def _fill_open(self, place: int, row: dict[str, Any], owner: int | None, seen: dict[Stamp, str]) -> None:
        for name, kind, mode, what in row["entries"]:
            if kind == LINK:
                os.symlink(what, name, dir_fd=place)
                if owner is not None:
                    os.chown(name, owner, owner, dir_fd=place, follow_symlinks=False)
                continue
            if kind == FOLDER:
                os.mkdir(name, 0o700, dir_fd=place)
            with _opened(name, _OPEN_FOLDER if kind == FOLDER else _MAKE_FILE, place) as made:
                if kind == FOLDER:
                    self._fill_open(made, self._row(what), owner, seen)
                else:
                    _write_all(made, self.get(what))
                if owner is not None:
                    os.fchown(made, owner, owner)
                os.fchmod(made, mode)
                if kind == FILE:
                    seen[_stamp(os.fstat(made))] = what


class _Keeping:
    """One walk over a workspace's folders: what was found, and how much."""

    def __init__(self, store: TreeStore, known: Mapping[Stamp, str], is_told: bool, bounds: TreeBounds) -> None:
        self._store, self._bounds = store, bounds
        self._known = known if is_told else {}
        self._stored = frozenset(known.values())
        self._bytes = self._files = 0
        self.seen: dict[Stamp, str] = {}
        self.dropped: list[str] = []

    def row(self, folder: Path) -> dict[str, Any]:
        """A folder's list. What it names is in the store."""
        os.chmod(folder, 0o755)
        with _opened(folder, _OPEN_FOLDER) as place:
            return self._row(place, "", 1)

    def _row(self, place: int, path: str, depth: int) -> dict[str, Any]:
        if depth > self._bounds.depth:
            raise TreeOverrun(f"folders deeper than {self._bounds.depth} levels")
        with os.scandir(place) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        self._files += len(entries)
        if self._files > self._bounds.files:
            raise TreeOverrun(f"more than {self._bounds.files} files and folders")
        rows = [self._entry(place, f"{path}{entry.name}", entry, depth) for entry in entries]
        return {"entries": [row for row in rows if row is not None]}

    def _entry(self, place: int, path: str, entry: "os.DirEntry[str]", depth: int) -> tuple[str, str, int, str] | None:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return entry.name, LINK, 0o777, os.readlink(entry.name, dir_fd=place)
        if stat.S_ISDIR(status.st_mode):
            mode = _open_to_its_owner(place, entry.name, status, 0o700)
            with _opened(entry.name, _OPEN_FOLDER, place) as below:
                return entry.name, FOLDER, mode, self._store.add_row(self._row(below, f"{path}/", depth + 1))
        if stat.S_ISREG(status.st_mode):
            mode = _open_to_its_owner(place, entry.name, status, 0o400)
            return entry.name, FILE, mode, self._file(place, path, entry.name, status)
        os.unlink(entry.name, dir_fd=place)
        self.dropped.append(path)
        return None

    def _file(self, place: int, path: str, name: str, status: os.stat_result) -> str:
        self._bytes += status.st_size
        if status.st_size > self._bounds.file_mb * _MIB:
            raise TreeOverrun(f"{path!r} has {status.st_size} bytes, more than {self._bounds.file_mb} MiB")
        if self._bytes > self._bounds.total_mb * _MIB:
            raise TreeOverrun(f"more than {self._bounds.total_mb} MiB in all files together")
        stamp = _stamp(status)
        digest = self._known.get(stamp)
        if digest is None:
            descriptor = os.open(name, _OPEN_FILE, dir_fd=place)
            try:
                content = _read_all(descriptor, status.st_size)
                stamp = _stamp(os.fstat(descriptor))
            finally:
                os.close(descriptor)
            digest = hashlib.sha256(content).hexdigest()
            if digest not in self._stored:
                self._store.put(digest, content)
        self.seen[stamp] = digest
        return digest


@contextmanager
def _opened(path: str | Path, flags: int, folder: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, flags, 0o600, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@functools.cache
def _tells_changes(device: int) -> bool:
    """Whether every change of a file there changes its stamp, by the kind of file system; False where that cannot be seen."""
    number = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError), open("/proc/self/mountinfo") as mounts:  # not Linux: nothing is known of it
        for line in mounts:
            fields = line.split()
            if fields[2] == number:
                return fields[fields.index("-") + 1] in _TELL_CHANGES
    return False


def _open_to_its_owner(folder: int, name: str, status: os.stat_result, needed: int) -> int:
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


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _settled(seen: Mapping[Stamp, str]) -> dict[Stamp, str]:
    """Stamps that no later change can bear."""
    before = time.time_ns() - _CLOCK_NS
    return {stamp: digest for stamp, digest in seen.items() if stamp.ctime_ns < before}
