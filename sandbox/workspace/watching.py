"""Tells which files may have changed though their stamps did not: what is written through a mapping stamps no file in memory.

A mapping needs a file that was opened for writing, and the kernel tells when the last hold on such a file ends. Since no process
outlives a command, all has been told when it is over.
"""

import ctypes
import functools
import os
import struct
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress

_TELL_CHANGES = {"ext4", "xfs", "btrfs"}
"""File systems that stamp what is written through a mapping, too. tmpfs does not; of others we do not know."""
_CLOSED_AFTER_WRITING, _OVERFLOW, _FORGOTTEN = 0x8, 0x4000, 0x8000
"""Bits of inotify's events: IN_CLOSE_WRITE, IN_Q_OVERFLOW, IN_IGNORED."""
_EVENT = struct.Struct("iIII")
"""Number of the watch, bits, cookie, and the length of the name that follows."""
_AT_ONCE = 1 << 16


class FolderWatch:
    """Files of watched folders that were opened for writing. Of what it cannot tell, it says so.

    A machine has a limited number of watches: where they are spent, nothing is told.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._events: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._watched: set[int] = set()
        self._written: defaultdict[int, set[str]] = defaultdict(set)

    def collect(self) -> None:
        """Take what was told since the last time; the answers of `written` are about that."""
        self._written.clear()
        with suppress(OSError):  # there is no more, or there never was a watch
            while told := os.read(self._events, _AT_ONCE):
                self._take(told)

    def written(self, folder: int) -> Collection[str] | None:
        """Names that were opened for writing in a folder; None where that is not known. The folder is watched from now on.

        Args:
            folder: descriptor of the open folder.
        """
        number: int = self._libc.inotify_add_watch(self._events, f"/proc/self/fd/{folder}".encode(), _CLOSED_AFTER_WRITING)
        if number in self._watched:
            return self._written.get(number, ())
        if number >= 0:
            self._watched.add(number)
        return None

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
                self._watched.clear()
            elif bits & _FORGOTTEN:
                self._watched.discard(number)
            else:
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
