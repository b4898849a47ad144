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

_TELL_CHANGES = {"ext4", "xfs", "btrfs"}
"""File systems that stamp what is written through a mapping, too. tmpfs does not; of others we do not know."""
_CLOSED_AFTER_WRITING, _OVERFLOW, _FORGOTTEN = 0x8, 0x4000, 0x8000
"""Bits of inotify's events: IN_CLOSE_WRITE, IN_Q_OVERFLOW, IN_IGNORED."""
_ALL_CHANGES = _CLOSED_AFTER_WRITING | 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200
"""And IN_MODIFY, IN_ATTRIB, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE: of a folder's entries and of the folder itself."""
_EVENT = struct.Struct("iIII")
"""Number of the watch, bits, cookie, and the length of the name that follows."""
_AT_ONCE = 1 << 16


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

    def collect(self) -> None:
        """Take what was told since the last time; all other answers are about that."""
        self._written.clear()
        with suppress(OSError):  # there is no more, or there never was a watch
            while told := os.read(self._events, _AT_ONCE):
                self._take(told)

    def written(self, folder: int, tree: Path) -> Collection[str] | None:
        """Names that were opened for writing in a folder; None where that is not known. The folder is watched from now on.

        Args:
            folder: descriptor of the open folder.
            tree: the folder at the top.
        """
        number: int = self._libc.inotify_add_watch(self._events, f"/proc/self/fd/{folder}".encode(), _ALL_CHANGES)
        known, self._tree_of[number] = number in self._tree_of, tree
        return self._written.get(number, ()) if known and number >= 0 else None

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
            number, bits, _, length = _EVENT.unpack_from(told, at)
            at += _EVENT.size + length
            if bits & _OVERFLOW:
                self._tree_of.clear()
                self._found.clear()
                continue
            self._found.pop(self._tree_of.get(number, Path()), None)
            if bits & _FORGOTTEN:
                self._tree_of.pop(number, None)
            elif bits & _CLOSED_AFTER_WRITING:
                self._written[number].add(os.fsdecode(told[at - length : at].rstrip(b"\0")))


@functools.cache
def tells_changes(device: int) -> bool:
    """Whether every change of a file there changes its stamp, by the kind of file system; False where that cannot be seen."""
    number = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError), open("/proc/self/mountinfo") as mounts:  # not Linux: nothing is known of it
        for line in mounts:
            fields = line.split()
            if fields[2] == number:
                return fields[fields.index("-") + 1] in _TELL_CHANGES
    return False
