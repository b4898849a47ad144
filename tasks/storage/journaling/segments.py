"""Append-only files of a folder: each process has its own, one `write()` a row, so that a kill tears the last row at most.

A name stands for one content that only grows, for ever: readers keep how far they have read. A writer locks what it writes.
"""

import errno
import fcntl
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from tasks.storage.disk import naming_full_disk
from warehouse.object_path import ObjectPath


class SegmentWriter:
    """One segment. Safe to use from several threads; opened at the first write.

    Args:
        what: what a row holds, for the message of a full disk.
        plain: makes JSON of values that JSON does not know.
    """

    def __init__(self, folder: Path, what: str, *, fsync: bool = False, plain: Callable[[Any], Any] | None = None) -> None:
        self._folder, self._what, self._fsync, self._plain = folder, what, fsync, plain
        self._name, self._n_opened = f"{os.getpid()}-{secrets.token_hex(6)}", 0
        self._descriptor: int | None = None
        self._path: Path | None = None
        self._lock = threading.Lock()

    def write(self, row: Mapping[str, object], hold: object = None) -> None:
        """Keep one row, in one write.

        Args:
            hold: for `ShippedSegments`, which write later than they are told.

        Raises:
            DiskFull: no room. Rows that were written before stay readable.
            OSError: no right to write.
        """
        line = line_of(row, self._plain)
        with self._lock, naming_full_disk(self._what, self._folder, len(line)):
            if self._descriptor is None:
                self._descriptor = self._open()
            written = os.write(self._descriptor, line)
            if written != len(line):
                # a torn line would spoil the next one, which may find room again
                os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder))
            if self._fsync:
                os.fsync(self._descriptor)

    def _open(self) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path = self._folder / f"{self._name}-{self._n_opened:06d}.jsonl"
        self._n_opened += 1
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        with suppress(OSError):  # a file system without locks: then its age alone tells
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor

    def flush(self) -> None:
        """Nothing to do: each row is kept as it is written."""

    def close(self) -> None:
        """Close the segment; a later write opens another one."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def wrote(self, path: Path) -> bool:
        """Whether that is the open segment."""
        return path == self._path

    def discard(self) -> None:
        """Close the open segment and remove it: its rows are kept elsewhere."""
        with self._lock:
            if self._descriptor is not None and self._path is not None:
                os.close(self._descriptor)
                self._descriptor = None
                self._path.unlink(missing_ok=True)


def is_being_written(path: Path) -> bool:
    """Whether the writer of a segment lives and may go on. Of a store nobody can tell: False.

    Raises:
        FileNotFoundError: it is not there.
    """
    if isinstance(path, ObjectPath):
        return False
    with path.open("rb") as segment:
        try:
            fcntl.flock(segment, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # no locks there
            return False
    return False


def line_of(row: Mapping[str, object], plain: Callable[[Any], Any] | None) -> bytes:
    """A row as a segment holds it."""
    try:
        return orjson.dumps(row, default=plain) + b"\n"
    except TypeError:  # a lone surrogate, which UTF-8 cannot hold
        return json.dumps(row, default=plain, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def read_segments(folder: Path) -> Iterator[dict[str, Any]]:
    """Every whole row of a folder's segments, one at a time. Rows torn by a kill or a full disk are left out."""
    for line in _lines(folder):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(row, dict):
            yield row


def _lines(folder: Path) -> Iterator[bytes]:
    if isinstance(folder, ObjectPath):
        for content in folder.read_each("*.jsonl"):
            yield from content.splitlines()
        return
    for segment in sorted(folder.glob("*.jsonl")):
        with segment.open("rb") as lines:
            yield from lines


def remove_segments(folder: Path) -> None:
    """Remove a folder's segments, once Parquet holds their content."""
    if isinstance(folder, ObjectPath):
        folder.remove_below()
    elif folder.is_dir():
        for path in folder.glob("*.jsonl"):
            path.unlink(missing_ok=True)
        folder.rmdir()
