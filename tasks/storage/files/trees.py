"""Folders by content: each file and each folder's list is an object under the sha256 of its bytes, written once.

A folder's list names its entries with kind, mode, and digest (of a file's bytes, or a folder's list) or target (of a link). So a
folder's digest covers all below it, and to keep it again stores only the files and lists that changed. Lists are stored after
what they name: a digest that was returned is whole, whenever a kill came. Times, owners and hard links are not kept.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from sandbox.workspace.interface import Entry, Stamp, StoredFolder, TreeBounds
from sandbox.workspace.watching import FolderWatch
from schemas.errors import CorruptRows
from tasks.storage.disk import naming_full_disk
from tasks.storage.files.filling import Filling, RecentContents
from tasks.storage.files.keeping import MAKE_FILE, Keeping, Named, opened, write_all
from tasks.storage.files.packing import packed, unpacked
from tasks.storage.files.tree_changes import entry_at, replaced, tree_changes

_CLOCK_NS = 50_000_000
"""Above the grain of a file system's clock: of two changes within one grain, the second leaves no trace in a stamp."""
_FOLDERS_REMEMBERED = 20_000
_ABANDONED_S = 24 * 3600.0
_AGAIN = "Type the command again that stored the tree"


class TreeStore:
    """See `sandbox.workspace.interface.Trees`. Several processes may use one folder.

    Args:
        path: the store's folder; made when something is stored.
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
        known: dict[Stamp, str] | None = None,
        bounds: TreeBounds | None = None,
        watch: FolderWatch | None = None,
    ) -> StoredFolder:
        found = dict(known or {})
        if known is not None:
            known.clear()  # where this fails, nothing is known
        if watch is not None:
            watch.collect()
        walk = Keeping(self, found, bounds or TreeBounds(), watch)
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
        kept = StoredFolder(digest, tuple(walk.dropped))
        if known is not None:
            known.update(_settled(walk.seen))
        return kept

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
        return _settled(filling.seen)

    def without_state(self, digest: str) -> str:
        """Digest of the files alone, without what a workspace carries beside them: equal files give equal digests.

        Raises:
            CorruptRows: as `restore`.
        """
        return self.add_row({"entries": self._row(digest)["entries"]})

    def changes(self, old: str, new: str) -> dict[str, tuple[Entry | None, Entry | None]]:
        return tree_changes(self._row, old, new)

    def files(self, digest: str, paths: Iterable[str]) -> dict[str, Entry]:
        return {
            path: entry
            for path in paths
            if (entry := entry_at(self._row, digest, path)) is not None
        }

    def with_files(self, digest: str, files: Mapping[str, Entry | None]) -> str:
        """Digest of a folder with other files at these paths, or none.

        Raises:
            CorruptRows: as `restore`.
        """
        return self.add_row(
            {"entries": replaced(self._row, self.add_row, self._row(digest)["entries"], files)}
        )

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
                self._write(place, packed(content))

    def get(self, digest: str) -> bytes:
        """One object.

        Raises:
            CorruptRows: it is not there, or not what was stored.
        """
        place = self._place(digest)
        try:
            with open(place, "rb", buffering=0) as file:
                content = unpacked(file.readall())
        except (OSError, ValueError) as error:
            raise CorruptRows(
                f"{place}: no object of the tree store ({error}). {_AGAIN}"
            ) from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise CorruptRows(
                f"{place}: its content is not what its name says. Remove the file. {_AGAIN}"
            )
        return content

    def _place(self, digest: str) -> str:
        return f"{self._path}/{digest[:2]}/{digest[2:]}"

    def _write(self, place: str, data: bytes) -> None:
        temporary = self._partial / f"{os.getpid()}-{token_hex(8)}"
        if not self._partial.is_dir():
            self._partial.mkdir(parents=True, exist_ok=True)
        try:
            with opened(temporary, MAKE_FILE) as descriptor:
                write_all(descriptor, data)
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

    def add_folder(self, entries: tuple[Named, ...]) -> str:
        """Store the list of a folder's entries; its digest. Lists of this process are not made again. Raises DiskFull."""
        digest = self._folders.get(entries)
        if digest is None:
            if len(self._folders) >= _FOLDERS_REMEMBERED:
                self._folders.clear()
            digest = self._folders[entries] = self.add_row({"entries": entries})
        return digest

    def add_row(self, row: Mapping[str, Any]) -> str:
        """Store a folder's list; its digest. Raises DiskFull."""
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
                f"{digest}: names no folder of the tree store {self._path}"
            ) from error


def _settled(seen: Mapping[Stamp, str]) -> dict[Stamp, str]:
    """Stamps that no later change can bear."""
    before = time.time_ns() - _CLOCK_NS
    return {stamp: digest for stamp, digest in seen.items() if stamp.ctime_ns < before}
