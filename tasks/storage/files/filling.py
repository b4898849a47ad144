"""Fills empty folders with what the store holds."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandbox.workspace.interface import Stamp
from sandbox.workspace.watching import FolderWatch
from tasks.storage.files.keeping import MAKE_FILE, OPEN_FOLDER, Walked, opened, stamp_of, write_all
from tasks.storage.files.tree_changes import FILE, FOLDER, LINK


class Filling:
    """Makes a workspace's folders.

    Args:
        get: digest -> a file's content.
        row: digest -> a folder's list.
        owner: user and group id of all that is made; the caller's where it is None.
        watch: watches the folders from when they are full, so that those that nobody changes are never walked.
    """

    def __init__(
        self, get: Callable[[str], bytes], row: Callable[[str], dict[str, Any]], owner: int | None, watch: FolderWatch | None
    ) -> None:
        self._get, self._row, self._owner, self._watch = get, row, owner, watch
        self.seen: dict[Stamp, str] = {}

    def fill(self, folder: Path, row: dict[str, Any]) -> None:
        """Make a folder's entries and all below them."""
        self._top, self._filled = folder, Walked(tuple(tuple(entry) for entry in row["entries"]))
        with opened(folder, OPEN_FOLDER) as place:
            self._fill(place, row)
            self._watch_from_now(place)
        if self._watch is not None:
            self._watch.remember(folder, self._filled)
        self.seen |= self._filled.seen

    def _fill(self, place: int, row: dict[str, Any]) -> None:
        self._filled.n_files += len(row["entries"])
        for name, kind, mode, what in row["entries"]:
            if kind == LINK:
                os.symlink(what, name, dir_fd=place)
                if self._owner is not None:
                    os.chown(name, self._owner, self._owner, dir_fd=place, follow_symlinks=False)
                continue
            if kind == FOLDER:
                os.mkdir(name, 0o700, dir_fd=place)
            with opened(name, OPEN_FOLDER if kind == FOLDER else MAKE_FILE, place) as made:
                if kind == FILE:
                    content = self._get(what)
                    self._filled.n_bytes += len(content)
                    write_all(made, content)
                else:
                    self._fill(made, self._row(what))
                if self._owner is not None:
                    os.fchown(made, self._owner, self._owner)
                os.fchmod(made, mode)
                if kind == FILE:
                    self._filled.seen[stamp_of(os.fstat(made))] = what
                else:
                    self._watch_from_now(made)

    def _watch_from_now(self, folder: int) -> None:
        if self._watch is not None:
            self._watch.written(folder, self._top)
