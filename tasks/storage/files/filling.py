"""Writer of stored trees into empty folders."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandbox.workspace.interface import Stamp
from sandbox.workspace.watching import NO_WATCH, FolderWatch
from tasks.storage.files.keeping import (
    MAKE_FILE,
    OPEN_FOLDER,
    WalkedFolder,
    open_descriptor,
    stamp_of,
    write_all,
)
from tasks.storage.files.tree_changes import FILE, LINK


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
