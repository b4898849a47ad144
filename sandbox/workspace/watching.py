"""Tells what a command may have changed, as the kernel tells it: folders of which nothing is told need not be looked at again.

Writing through a mapping stamps no file in memory. But a mapping needs a file that was opened for writing, and the kernel
tells when the last hold on such a file ends. Since no process outlives a command, all has been told when it is over.
"""

import ctypes
import functools
import os
import struct
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_TELL_CHANGES = {"ext4", "xfs", "btrfs"}
"""File systems that stamp what is written through a mapping, too. tmpfs does not; of others we do not know."""
_CLOSED_AFTER_WRITING, _OVERFLOW, _FORGOTTEN = 0x8, 0x4000, 0x8000
"""Bits of inotify's events: IN_CLOSE_WRITE, IN_Q_OVERFLOW, IN_IGNORED."""
_MOVED_FROM, _MOVED_TO, _CREATED, _DELETED, _OF_FOLDER = 0x40, 0x80, 0x100, 0x200, 0x40000000
_ALL_CHANGES = _CLOSED_AFTER_WRITING | 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200
"""And IN_MODIFY, IN_ATTRIB, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE: of a folder's entries and of the folder itself."""
_EVENT = struct.Struct("iIII")
"""Number of the watch, bits, cookie, and the length of the name that follows."""
_AT_ONCE = 1 << 16
NO_WATCH = -1


class Watched(NamedTuple):
    """A watched folder, and what is known of it."""

    number: int
    """Number of its watch; below zero where the machine has none left."""
    written: Collection[str] | None
    """Names that were opened for writing there; None where that is not known."""
    remembered: object | None
    """What was remembered of the folder, where nothing has changed there or below it since."""


class FolderWatch:
    """Files of watched folders that were opened for writing, and trees of folders in which nothing changed.

    A machine has a limited number of watches: where they are spent, nothing is told. A file with names in two trees is written in
    one without a word in the other: the trees must not share files, as those of a workspace cannot, each a mount of its own.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._events: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._tree_of: dict[int, Path] = {}
        self._written: defaultdict[int, set[str]] = defaultdict(set)
        self._found: dict[Path, object] = {}
        self._parent_of: dict[int, int] = {}
        self._folders: dict[int, object] = {}
        self._links = _PassingLinks()

    def collect(self) -> None:
        """Take what was told since the last time; all other answers are about that."""
        self._written.clear()
        self._links = _PassingLinks()
        with suppress(OSError):  # there is no more, or there never was a watch
            while told := os.read(self._events, _AT_ONCE):
                self._take(told)
        if self._links.trees:
            self._forget_folders(self._links.trees)

    def watch(self, folder: int, tree: Path, parent: int = NO_WATCH) -> "Watched":
        """Watch a folder from now on, and return what happened there until now.

        Args:
            folder: descriptor of the open folder.
            tree: the folder at the top.
            parent: number of the watch of the folder above; none for the one at the top.
        """
        number: int = self._libc.inotify_add_watch(
            self._events, f"/proc/self/fd/{folder}".encode(), _ALL_CHANGES
        )
        known, self._tree_of[number] = number in self._tree_of and number >= 0, tree
        self._parent_of[number] = parent
        return Watched(
            number,
            self._written.get(number, ()) if known else None,
            self._folders.get(number) if known else None,
        )

    def set_parent(self, number: int, parent: int) -> None:
        """Name the watch of the folder above one that was watched before it."""
        self._parent_of[number] = parent

    def remember_folder(self, number: int, found: object) -> None:
        """Have `found` recalled until something changes in a watched folder or below it."""
        if number >= 0 and -1 not in self._tree_of:
            self._folders[number] = found

    def forget_folders(self, tree: Path) -> None:
        """Recall no folder of a tree, since files there have several names: a write by one tells nothing where the others are."""
        self._forget_folders({tree})

    def remember(self, tree: Path, found: object) -> None:
        """Have `found` recalled until something changes in the tree, each of whose folders has been named to `written`."""
        if -1 not in self._tree_of:
            self._found[tree] = found

    def recall(self, tree: Path) -> object | None:
        """What was remembered of the tree, where nothing has changed there since."""
        return self._found.get(tree)

    def close(self) -> None:
        """Watch no more."""
        if self._events >= 0:
            os.close(self._events)
            self._events = -1

    def _take(self, told: bytes) -> None:
        at = 0
        while at < len(told):
            number, bits, cookie, length = _EVENT.unpack_from(told, at)
            at += _EVENT.size + length
            if bits & _OVERFLOW:
                self._tree_of.clear()
                self._found.clear()
                self._folders.clear()
                continue
            tree = self._tree_of.get(number, Path())
            self._found.pop(tree, None)
            self._forget_upwards(number)
            if bits & _FORGOTTEN:
                self._tree_of.pop(number, None)
                self._parent_of.pop(number, None)
                continue
            name = told[at - length : at].rstrip(b"\0")
            if bits & _CLOSED_AFTER_WRITING:
                self._written[number].add(os.fsdecode(name))
            self._links.take(tree, (number, name), bits, cookie)

    def _forget_upwards(self, number: int) -> None:
        while number >= 0:
            self._folders.pop(number, None)
            number = self._parent_of.get(number, NO_WATCH)

    def _forget_folders(self, trees: Collection[Path]) -> None:
        for number in [number for number in self._folders if self._tree_of.get(number) in trees]:
            del self._folders[number]


class _PassingLinks:
    """Trees in which a second name of a file may have come and gone between two looks.

    Such a name is seen as any other new one, and what was written by it tells nothing where the first one is.
    """

    def __init__(self) -> None:
        self.trees: set[Path] = set()
        self._new: set[tuple[int, bytes]] = set()
        self._moving: set[int] = set()

    def take(self, tree: Path, name: tuple[int, bytes], bits: int, cookie: int) -> None:
        """Take one event. The kernel reports nothing from inside a new folder until that folder is watched, too.

        Args:
            name: number of the watch, and the entry's name in the watched folder.
            bits: kind of the event.
            cookie: the same number in both events of a move.
        """
        if bits & _CREATED:
            self._new.add(name)
            if bits & _OF_FOLDER:
                self.trees.add(tree)
        elif bits & (_DELETED | _MOVED_TO) and name in self._new:
            self.trees.add(tree)
        elif bits & _MOVED_FROM and name in self._new:
            self._new.discard(name)
            self._moving.add(cookie)
        if bits & _MOVED_TO and cookie in self._moving:
            self._new.add(name)


@functools.cache
def tells_changes(device: int) -> bool:
    """Whether every change of a file there changes its stamp, by the kind of file system; False where that cannot be seen."""
    number = f"{os.major(device)}:{os.minor(device)}"
    with (
        suppress(OSError),
        open("/proc/self/mountinfo") as mounts,
    ):  # not Linux: nothing is known of it
        for line in mounts:
            fields = line.split()
            if fields[2] == number:
                return fields[fields.index("-") + 1] in _TELL_CHANGES
    return False
