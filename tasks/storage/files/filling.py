"""Fills empty folders with what the store holds."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandbox.workspace.interface import Stamp
from sandbox.workspace.watching import NO_WATCH, FolderWatch
from tasks.storage.files.keeping import MAKE_FILE, OPEN_FOLDER, Walked, opened, stamp_of, write_all
from tasks.storage.files.tree_changes import FILE, LINK


class RecentContents:
    """Contents that were read lately: workspaces of one project have most files in common. Safe to use from several threads.

    Args:
        get: digest -> a file's content, read and verified.
        most_bytes: bound of all contents together; the ones used longest ago go first.
    """

    def __init__(self, get: Callable[[str], bytes], most_bytes: int = 64 * 2**20) -> None:
        self._get, self._most_bytes = get, most_bytes
        self._contents: OrderedDict[str, bytes] = OrderedDict()
        self._n_bytes = 0
        self._lock = threading.Lock()

    def get(self, digest: str) -> bytes:
        """Return a content. Raises what `get` raises."""
        with self._lock:
            if (found := self._contents.get(digest)) is not None:
                self._contents.move_to_end(digest)
                return found
        content = self._get(digest)
        with self._lock:
            if digest not in self._contents:
                self._contents[digest] = content
                self._n_bytes += len(content)
            while self._n_bytes > self._most_bytes:
                self._n_bytes -= len(self._contents.popitem(last=False)[1])
        return content


class Filling:
    """Makes a workspace's folders.

    Args:
        get: digest -> a file's content.
        row: digest -> a folder's list.
        owner: user and group id of all that is made; the caller's where it is None.
        watch: watches the folders from when they are full, so that those that nobody changes are never walked.
    """

    def __init__(
        self,
        get: Callable[[str], bytes],
        row: Callable[[str], dict[str, Any]],
        owner: int | None,
        watch: FolderWatch | None,
    ) -> None:
        self._get, self._row, self._owner, self._watch = get, row, owner, watch
        self.seen: dict[Stamp, str] = {}

    def fill(self, folder: Path, row: dict[str, Any]) -> None:
        """Make a folder's entries and all below them."""
        self._top = folder
        with opened(folder, OPEN_FOLDER) as place:
            filled, below = self._fill(place, row)
            self._watch_from_now(place, filled, below)
        if self._watch is not None:
            self._watch.remember(folder, filled)
        for seen in filled.all_seen():
            self.seen |= seen

    def _fill(self, place: int, row: dict[str, Any]) -> tuple[Walked, list[int]]:
        """Fill a folder; return what it holds, and the watches of the folders below."""
        filled, watches = (
            Walked(tuple(tuple(entry) for entry in row["entries"]), n_files=len(row["entries"])),
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
                with opened(name, OPEN_FOLDER, place) as made:
                    below, numbers = self._fill(made, self._row(what))
                    self._give_to_owner(made, mode)
                    watches.append(self._watch_from_now(made, below, numbers))
                filled.add(below)
        return filled, watches

    def _file(self, place: int, name: str, mode: int, digest: str, filled: Walked) -> int:
        content = self._get(digest)
        with opened(name, MAKE_FILE, place) as made:
            write_all(made, content)
            self._give_to_owner(made, mode)
            filled.seen[stamp_of(os.fstat(made))] = digest
        return len(content)

    def _give_to_owner(self, made: int, mode: int) -> None:
        if self._owner is not None:
            os.fchown(made, self._owner, self._owner)
        os.fchmod(made, mode)

    def _watch_from_now(self, folder: int, filled: Walked, below: list[int]) -> int:
        """Watch a folder that is full: while it is filled, each entry would be an event."""
        if self._watch is None:
            return NO_WATCH
        number = self._watch.watch(folder, self._top).number
        for watch in below:
            self._watch.set_parent(watch, number)
        self._watch.remember_folder(number, filled)
        return number
