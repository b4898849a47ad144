"""Watch on folders by inotify. A folder without events need not be read again.

In a file system in memory, a write through a memory mapping does not change a file's timestamps.
But a mapping needs a file that was opened for writing, and inotify reports when such a file is
closed for the last time. No process outlives a command, so all events have arrived when a command
ends.
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
"""File systems in which a write through a memory mapping also changes the file's timestamps. In
tmpfs it does not. For other file systems it is unknown.
"""
_CLOSED_AFTER_WRITING, _OVERFLOW, _FORGOTTEN = 0x8, 0x4000, 0x8000
"""Bits of inotify's events: IN_CLOSE_WRITE, IN_Q_OVERFLOW, IN_IGNORED."""
_MOVED_FROM, _MOVED_TO, _CREATED, _DELETED, _OF_FOLDER = 0x40, 0x80, 0x100, 0x200, 0x40000000
_ALL_CHANGES = _CLOSED_AFTER_WRITING | 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200
"""Bits for all changes of a folder's entries and of the folder itself. The numbers are IN_MODIFY,
IN_ATTRIB, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE and IN_DELETE.
"""
_EVENT = struct.Struct("iIII")
"""Layout of an event: number of the watch, bits, cookie, and length of the name that follows."""
_AT_ONCE = 1 << 16
NO_WATCH = -1


class Watched(NamedTuple):
    """Watched folder, and what the watch knows about it."""

    number: int
    """Number of the folder's watch; below zero if the machine has no more watches."""
    written: Collection[str] | None
    """Names in the folder that were opened for writing; None if unknown."""
    remembered: object | None
    """Object remembered for the folder; None if the folder or something below it has changed since.
    """


class FolderWatch:
    """Watch that reports files opened for writing, and folders that did not change.

    A machine has a limited number of inotify watches. When they are used up, this watch reports all
    folders as unknown. If a file has names in two trees, a write by one name causes no event for
    the other, so trees must not share files. Workspaces cannot share files, since each is a
    separate mount.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._events: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._tree_of: dict[int, Path] = {}
        self._written: defaultdict[int, set[str]] = defaultdict(set)
        self._values: dict[Path, object] = {}
        self._parent_of: dict[int, int] = {}
        self._folders: dict[int, object] = {}
        self._links = _PassingLinks()

    def collect(self) -> None:
        """Read the kernel's events since the last call. The other methods depend on them."""
        self._written.clear()
        self._links = _PassingLinks()
        with suppress(OSError):  # No more events, or no watch at all.
            while events := os.read(self._events, _AT_ONCE):
                self._take(events)
        if self._links.trees:
            self._forget_folders(self._links.trees)

    def watch(self, folder: int, tree: Path, parent: int = NO_WATCH) -> "Watched":
        """Watch a folder from now on, and return what has changed there so far.

        Args:
            folder: descriptor of the open folder.
            tree: top folder of the tree.
            parent: number of the watch of the parent folder; NO_WATCH for the top folder.
        """
        number: int = self._libc.inotify_add_watch(
            self._events, f"/proc/self/fd/{folder}".encode(), _ALL_CHANGES
        )
        is_known, self._tree_of[number] = number in self._tree_of and number >= 0, tree
        self._parent_of[number] = parent
        return Watched(
            number,
            self._written.get(number, ()) if is_known else None,
            self._folders.get(number) if is_known else None,
        )

    def set_parent(self, number: int, parent: int) -> None:
        """Set the parent of a folder whose watch began before the parent's watch."""
        self._parent_of[number] = parent

    def remember_folder(self, number: int, value: object) -> None:
        """Remember an object until something changes in a watched folder or below it."""
        if number >= 0 and -1 not in self._tree_of:
            self._folders[number] = value

    def forget_folders(self, tree: Path) -> None:
        """Forget what was remembered for the folders of a tree whose files have several names.

        A write by one name of a file causes no event in the folders of its other names.
        """
        self._forget_folders({tree})

    def remember(self, tree: Path, value: object) -> None:
        """Remember an object until something changes in the tree.

        All folders of the tree must be watched.
        """
        if -1 not in self._tree_of:
            self._values[tree] = value

    def recall(self, tree: Path) -> object | None:
        """Return the object remembered for the tree, if nothing has changed there since."""
        return self._values.get(tree)

    def close(self) -> None:
        """Stop watching."""
        if self._events >= 0:
            os.close(self._events)
            self._events = -1

    def _take(self, events: bytes) -> None:
        at = 0
        while at < len(events):
            number, bits, cookie, length = _EVENT.unpack_from(events, at)
            at += _EVENT.size + length
            if bits & _OVERFLOW:
                self._tree_of.clear()
                self._values.clear()
                self._folders.clear()
                continue
            tree = self._tree_of.get(number, Path())
            self._values.pop(tree, None)
            self._forget_upwards(number)
            if bits & _FORGOTTEN:
                self._tree_of.pop(number, None)
                self._parent_of.pop(number, None)
                continue
            name = events[at - length : at].rstrip(b"\0")
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
    """Trees in which a file may have had a second name between two calls of `collect`.

    The events for a second name look like those for a new file, and a write by that name causes no
    event in the folder of the first name.
    """

    def __init__(self) -> None:
        self.trees: set[Path] = set()
        self._new: set[tuple[int, bytes]] = set()
        self._moving: set[int] = set()

    def take(self, tree: Path, name: tuple[int, bytes], bits: int, cookie: int) -> None:
        """Process one event.

        The kernel reports nothing from inside a new folder until that folder is watched, too.

        Args:
            tree: tree of the watched folder.
            name: number of the watch, and the entry's name in the watched folder.
            bits: kind of the event.
            cookie: number that both events of a move share.
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
    """Return True if every change of a file on a device also changes the file's timestamps.

    This depends on the type of the file system. Return False if the type is unknown.
    """
    number = f"{os.major(device)}:{os.minor(device)}"
    # The system is not Linux, so the type is unknown.
    with suppress(OSError), open("/proc/self/mountinfo") as mounts:
        for line in mounts:
            fields = line.split()
            if fields[2] == number:
                return fields[fields.index("-") + 1] in _TELL_CHANGES
    return False
