"""Content-addressed store of folders: files and folders' lists are objects named by their sha256.

A folder's list contains the name, kind and mode of each entry, and the digest of a file's bytes or
of a folder's list, or the target of a link. So a folder's digest covers everything below it, and
only changed files and lists are stored again. Lists are stored after their entries, so after a kill
every returned digest is still complete. Times, owners and hard links are not stored.
"""

import functools
import hashlib
import json
import os
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from sandbox.workspace.interface import Entry, Stamp, StoredFolder, TreeBounds
from sandbox.workspace.watching import FolderWatch
from schemas.errors import CorruptRows
from tasks.storage.files.keeping import (
    MAKE_FILE,
    Filling,
    Keeping,
    Named,
    RecentContents,
    open_descriptor,
    write_all,
)
from tasks.storage.files.tree_changes import entry_at, replace_entries, tree_changes
from tasks.storage.home import naming_full_disk

if TYPE_CHECKING:
    from pyarrow import Codec


_PREFIX, _SIZE_BYTES = b"lz4\0", 8
_MOST_BYTES = 2**32
"""Largest plausible size of a file. A larger size means damaged bytes: no memory is allocated."""


def pack(content: bytes) -> bytes:
    """Compress a content with LZ4. The result begins with a prefix and the content's size.

    The result is a tenth larger than that of zlib, and unpacked ten times as fast.
    """
    return b"".join(
        (
            _PREFIX,
            len(content).to_bytes(_SIZE_BYTES, "little"),
            _codec().compress(content, asbytes=True),
        )
    )


def unpack(data: bytes) -> bytes:
    """Return the content of packed bytes, including zlib's from stores of earlier releases.

    Raises:
        ValueError: the bytes have neither the present format nor zlib's.
        OSError: the bytes are damaged.
    """
    body = len(_PREFIX) + _SIZE_BYTES
    if not data.startswith(_PREFIX):
        try:
            return zlib.decompress(data)
        except zlib.error as error:
            raise ValueError(str(error)) from error
    size = int.from_bytes(data[len(_PREFIX) : body], "little")
    if size > _MOST_BYTES:
        raise ValueError(f"the stated size of {size} bytes is too large")
    return _codec().decompress(data[body:], size, asbytes=True)


@functools.cache
def _codec() -> "Codec":
    from pyarrow import Codec  # imported late, so that commands that open no tree start fast

    return Codec("lz4")


_CLOCK_NS = 50_000_000
"""Nanoseconds, more than a step of a file system's clock.

Two changes within one step have equal stamps.
"""
_FOLDERS_REMEMBERED = 20_000
_ABANDONED_S = 24 * 3600.0
_AGAIN = "Type the command again that stored the tree"


class TreeStore:
    """Store of file trees in a folder. See `sandbox.workspace.interface.Trees`.

    Several processes may use it.

    Args:
        path: folder of the store, created with the first object.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path / "partial"
        self._folders: dict[tuple[Named, ...], str] = {}
        self._recent = RecentContents(self.get)

    def keep(
        self,
        folder: Path,
        beside: Mapping[str, Path] | None = None,
        known_digests: dict[Stamp, str] | None = None,
        bounds: TreeBounds | None = None,
        watch: FolderWatch | None = None,
    ) -> StoredFolder:
        digests = dict(known_digests or {})
        if known_digests is not None:
            known_digests.clear()  # stays empty if the walk fails
        if watch is not None:
            watch.collect()
        walk = Keeping(self, digests, bounds or TreeBounds(), watch)
        entries = walk.entries(folder)
        others = {
            name: other for name, path in (beside or {}).items() if (other := walk.entries(path))
        }
        stored = {name: self.add_folder(other) for name, other in others.items()}
        digest = (
            self.add_row({"entries": entries, "beside": stored})
            if stored
            else self.add_folder(entries)
        )
        if known_digests is not None:
            known_digests.update(_settled(walk.digests))
        return StoredFolder(digest, tuple(walk.dropped))

    def restore(
        self,
        digest: str,
        folder: Path,
        beside: Mapping[str, Path] | None = None,
        owner: int | None = None,
        watch: FolderWatch | None = None,
    ) -> dict[Stamp, str]:
        row, filling = (
            self._recent_row(digest),
            Filling(self._recent.get, self._recent_row, owner, watch),
        )
        filling.fill(folder, row)
        for name, place in (beside or {}).items():
            if name in row.get("beside", {}):
                filling.fill(place, self._recent_row(row["beside"][name]))
        return _settled(filling.digests)

    def changes(self, old: str, new: str) -> dict[str, tuple[Entry | None, Entry | None]]:
        return tree_changes(self._row, old, new)

    def files(self, digest: str, paths: Iterable[str]) -> dict[str, Entry]:
        return {
            path: entry
            for path in paths
            if (entry := entry_at(self._row, digest, path)) is not None
        }

    def with_files(self, digest: str, files: Mapping[str, Entry | None]) -> str:
        """Return the digest of a folder after files at some paths were replaced or removed (None).

        Raises:
            CorruptRows: the store does not have the folder.
        """
        return self.add_row(
            {
                "entries": replace_entries(
                    self._row, self.add_row, self._row(digest)["entries"], files
                )
            }
        )

    def joined(self, *digests: str) -> str:
        """Return the digest of a folder with the entries of several folders.

        The folders must have no name in common.

        Raises:
            CorruptRows: the store does not have one of the folders.
        """
        entries = [entry for digest in digests for entry in self._row(digest)["entries"]]
        return self.add_row({"entries": sorted(entries, key=lambda entry: entry[0])})

    def add(self, content: bytes) -> str:
        """Store one object unless the store has it, and return its digest.

        Raises:
            DiskFull: the disk is full.
        """
        digest = hashlib.sha256(content).hexdigest()
        self.put(digest, content)
        return digest

    def put(self, digest: str, content: bytes) -> None:
        """Store one object under its digest unless the store has it. Raises DiskFull."""
        place = self._place(digest)
        if not os.path.exists(place):
            with naming_full_disk("a workspace's file", self._path, len(content)):
                self._write(place, pack(content))

    def get(self, digest: str) -> bytes:
        """Return one object.

        Raises:
            CorruptRows: the object is missing, or its content has changed.
        """
        place = self._place(digest)
        try:
            with open(place, "rb", buffering=0) as file:
                content = unpack(file.readall())
        except (OSError, ValueError) as error:
            raise CorruptRows(
                f"{place}: no object of the tree store ({error}). {_AGAIN}"
            ) from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise CorruptRows(
                f"{place}: its content does not have the digest in its name. Remove the file. "
                f"{_AGAIN}"
            )
        return content

    def _place(self, digest: str) -> str:
        return f"{self._path}/{digest[:2]}/{digest[2:]}"

    def _write(self, place: str, data: bytes) -> None:
        temporary = self._partial / f"{os.getpid()}-{token_hex(8)}"
        if not self._partial.is_dir():
            self._partial.mkdir(parents=True, exist_ok=True)
        try:
            with open_descriptor(temporary, MAKE_FILE) as descriptor:
                write_all(descriptor, data)
            try:
                os.replace(temporary, place)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(place), exist_ok=True)
                os.replace(temporary, place)
        except BaseException:  # also signals, so that no half-written file stays
            with suppress(OSError):  # The file may not exist. The first error is raised.
                temporary.unlink()
            raise

    def remove_abandoned(self) -> None:
        """Remove unfinished files of writers that were killed more than a day ago."""
        with suppress(FileNotFoundError):  # nothing was written yet
            for path in self._partial.iterdir():
                with suppress(OSError):  # another process removed it first
                    if time.time() - path.stat().st_mtime > _ABANDONED_S:
                        path.unlink()

    def add_folder(self, entries: tuple[Named, ...]) -> str:
        """Store the list of a folder's entries and return its digest. Raises DiskFull.

        Digests of recent lists are cached in the process.
        """
        digest = self._folders.get(entries)
        if digest is None:
            if len(self._folders) >= _FOLDERS_REMEMBERED:
                self._folders.clear()
            digest = self._folders[entries] = self.add_row({"entries": entries})
        return digest

    def add_row(self, row: Mapping[str, Any]) -> str:
        """Store a folder's list and return its digest. Raises DiskFull."""
        return self.add(json.dumps(row, sort_keys=True, separators=(",", ":")).encode("ascii"))

    def _recent_row(self, digest: str) -> dict[str, Any]:
        return self._parsed(digest, self._recent.get(digest))

    def _row(self, digest: str) -> dict[str, Any]:
        return self._parsed(digest, self.get(digest))

    def _parsed(self, digest: str, content: bytes) -> dict[str, Any]:
        try:
            return json.loads(content)
        except ValueError as error:
            raise CorruptRows(
                f"{digest} is no folder of the tree store {self._path}. {_AGAIN}"
            ) from error


def _settled(digests: Mapping[Stamp, str]) -> dict[Stamp, str]:
    """Return the digests whose stamps are old enough that no later change can have them."""
    before = time.time_ns() - _CLOCK_NS
    return {stamp: digest for stamp, digest in digests.items() if stamp.ctime_ns < before}
