"""Segments: append-only files of JSON lines. Each process writes a separate segment in a folder.

A row is written with one `write()`, so a kill tears at most the last row. A segment's content only
grows and its name is never used again, so readers store how far they have read. A writer locks its
segment. Each line begins with the checksum of its row; lines of releases before 2026-12 have none.

An object store cannot append. So the rows of two seconds are in memory, and are uploaded as one
segment; a kill loses the rows of the open segment. A row is not uploaded if its worker has lost the
lease of the row's shard.
"""

import errno
import fcntl
import json
import os
import secrets
import socket
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import orjson
from pydantic import BaseModel

from schemas.errors import ParleyError
from tasks.storage.home import naming_full_disk
from tasks.storage.journaling.leases import LeaseLost, ShardLease
from warehouse.object_path import ObjectPath

T = TypeVar("T")
Row = Mapping[str, Any]
_SUM = b'{"crc":"'
_BODY_AT = len(_SUM) + len('01234567",')


@dataclass(frozen=True)
class Form(Generic[T]):
    """Format in which one kind of answers is stored in segments.

    By default, a row has the fields `key` and `answer`.
    """

    what: str
    """Description of a row, which the error of a full disk shows."""
    load: Callable[[Row], T]
    """Converts a row to an answer. Raises KeyError, TypeError or ValueError for other rows."""
    dump: Callable[[T], Row] = lambda answer: {"answer": answer}
    """Converts an answer to the fields of a row that `dump_row` can write."""
    load_old: Callable[[Row], Mapping[str, T]] | None = None
    """Converts a row of the previous release to answers by key. Raises the errors of `load`."""

    def read(self, row: Row) -> Mapping[str, T]:
        """Return the answers in a row by key; empty if it has no answer of this kind."""
        with suppress(KeyError, TypeError, ValueError):
            if "key" in row:
                return {row["key"]: self.load(row)}
            if self.load_old is not None:
                return self.load_old(row)
        return {}


class SegmentWriter:
    """Writer of one segment. Several threads may use it. The file is created at the first write.

    Args:
        folder: folder of the segment.
        what: description of a row, which the error of a full disk shows.
        fsync: flush each row to the disk.
    """

    def __init__(self, folder: Path, what: str, *, fsync: bool = False) -> None:
        self._folder, self._what, self._fsync = folder, what, fsync
        self._name, self._n_opened = f"{os.getpid()}-{secrets.token_hex(6)}", 0
        self._descriptor: int | None = None
        self._path: Path | None = None
        self._lock = threading.Lock()

    def write(self, *rows: Mapping[str, object], lease: object = None) -> None:
        """Append rows in one write.

        Args:
            rows: rows to append.
            lease: not used; see `ShippedSegments.write`.

        Raises:
            DiskFull: the disk is full. Earlier rows stay readable.
            OSError: the process may not write.
        """
        lines = b"".join(map(line_of, rows))
        with self._lock, naming_full_disk(self._what, self._folder, len(lines)):
            if self._descriptor is None:
                self._descriptor = self._open()
            written = os.write(self._descriptor, lines)
            if written != len(lines):
                # A torn line would damage the next one, which may be written once there is room.
                os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder))
            if self._fsync:
                os.fsync(self._descriptor)

    def _open(self) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path = self._folder / f"{self._name}-{self._n_opened:06d}.jsonl"
        self._n_opened += 1
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        with suppress(OSError):  # On a file system without locks, readers use the segment's age.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor

    def flush(self) -> None:
        """Do nothing: each row is visible as soon as it is written."""

    def close(self) -> None:
        """Close the segment. A later write opens another one."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def wrote(self, path: Path) -> bool:
        """Return True if `path` is the segment of this writer."""
        return path == self._path

    def discard(self) -> None:
        """Close and remove the segment. The caller has already stored its rows elsewhere."""
        with self._lock:
            if self._descriptor is not None and self._path is not None:
                os.close(self._descriptor)
                self._descriptor = None
                self._path.unlink(missing_ok=True)


def is_being_written(path: Path) -> bool:
    """Return True if a living process has the segment open for writing.

    Return False for object stores and file systems without locks, where this cannot be known.

    Raises:
        FileNotFoundError: the segment does not exist.
    """
    if isinstance(path, ObjectPath):
        return False
    with path.open("rb") as segment:
        try:
            fcntl.flock(segment, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a file system without locks
            return False
    return False


def dump_row(row: object) -> dict[str, object]:
    """Return the fields of a model that differ from their default, or all fields of a dataclass."""
    defaults = _defaults(type(row))
    return {
        name: value
        for name, value in vars(row).items()
        if name not in defaults or value != defaults[name]
    }


@cache
def _defaults(kind: type) -> dict[str, object]:
    return (
        {name: field.default for name, field in kind.model_fields.items()}
        if issubclass(kind, BaseModel)
        else {}
    )


def line_of(row: Mapping[str, object]) -> bytes:
    """Return a row's line in a segment: JSON whose first field is the checksum of the others."""
    try:
        body = orjson.dumps(row, default=dump_row)
    except TypeError:  # a lone surrogate, which UTF-8 cannot hold
        body = json.dumps(row, default=dump_row, ensure_ascii=False).encode("utf-8", "replace")
    return b'{"crc":"%08x",' % zlib.crc32(body) + body[1:] + b"\n"


def _row_of(line: bytes) -> dict[str, Any] | None:
    """Return the row of a line; None if the line is torn or damaged."""
    if line.startswith(_SUM):
        checksum, line = line[len(_SUM) : len(_SUM) + 8], b"{" + line[_BODY_AT:].rstrip(b"\n")
        if checksum != b"%08x" % zlib.crc32(line):
            return None
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) else None


class SegmentReader:
    """Reader of the segments of one folder that yields each row once over repeated reads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._n_read: dict[Path, int] = {}
        """Number of bytes that were read of each segment."""

    def segments(self) -> list[Path]:
        """Return the present segments, sorted by name."""
        return sorted(self._folder.glob("*.jsonl"))

    def new_rows(self, segments: Iterable[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Yield each complete row that was not read before, with its segment.

        Torn and damaged rows are left out. Removed segments are skipped.
        """
        for segment, line in self._new_lines(segments):
            if (row := _row_of(line)) is not None:
                yield segment, row

    def _new_lines(self, segments: Iterable[Path]) -> Iterator[tuple[Path, bytes]]:
        if isinstance(self._folder, ObjectPath):  # An object is complete and never changes.
            new = [
                path
                for path in segments
                if isinstance(path, ObjectPath) and path not in self._n_read
            ]
            for segment, content in self._folder.read_each(new):
                self._n_read[segment] = len(content)
                yield from ((segment, line) for line in content.splitlines())
            return
        for segment in segments:
            with suppress(FileNotFoundError):
                start = self._n_read.setdefault(segment, 0)
                if segment.stat().st_size > start:
                    with segment.open("rb") as file:
                        file.seek(start)
                        for line in file:
                            yield segment, line
                            # A torn or unfinished line is read again, with all lines after it.
                            if not line.endswith(b"\n"):
                                break
                            self._n_read[segment] += len(line)


def read_segments(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield each complete row of a folder's segments."""
    reader = SegmentReader(folder)
    return (row for _, row in reader.new_rows(reader.segments()))


def remove_segments(folder: Path) -> None:
    """Remove a folder's segments, once Parquet contains their rows."""
    if isinstance(folder, ObjectPath):
        folder.remove_below()
    elif folder.is_dir():
        for path in folder.glob("*.jsonl"):
            path.unlink(missing_ok=True)
        folder.rmdir()


SHIP_EVERY_S = 2.0
SHIP_BYTES = 4 * 2**20
"""Size in bytes at which the open segment is uploaded immediately."""


class ShippedSegments:
    """Writer of segments in an object store, with the methods of `SegmentWriter`.

    Several threads may use it. A background thread uploads the segments.
    """

    def __init__(self, folder: ObjectPath) -> None:
        self._folder = folder
        self._name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        """Prefix of the segments' names. The random part distinguishes machines with one name."""
        self._n_shipped = 0
        self._rows: list[tuple[bytes, ShardLease | None]] = []
        self._n_bytes = 0
        self._lock = threading.Lock()
        self._shipping = threading.Lock()
        """Lock during the upload of a segment, so that segments arrive in order."""
        self._wake = threading.Event()
        self._ends = False
        self._thread: threading.Thread | None = None
        self._fault: ParleyError | None = None

    def write(self, *rows: Mapping[str, object], lease: ShardLease | None = None) -> None:
        """Add rows to the open segment.

        Args:
            rows: rows to add.
            lease: lease of the shard that the rows belong to.

        Raises:
            ServerUnavailable: earlier rows could not be uploaded.
        """
        lines = b"".join(map(line_of, rows))
        with self._lock:
            if self._fault is not None:
                raise self._fault
            self._rows.append((lines, lease))
            self._n_bytes += len(lines)
            if self._thread is None:
                self._ends = False
                self._thread = threading.Thread(
                    target=self._ship_on, name="parley-shipping", daemon=True
                )
                self._thread.start()
            if self._n_bytes >= SHIP_BYTES:
                self._wake.set()

    def flush(self) -> None:
        """Upload the open segment.

        Raises:
            ServerUnavailable: the object store does not accept it. The rows stay in memory, and the
                next upload includes them.
        """
        with self._shipping:
            with self._lock:
                rows, self._rows, self._n_bytes = self._rows, [], 0
            try:
                valid = {lease: lease is None or _is_valid(lease) for _, lease in rows}
                lines = [line for line, lease in rows if valid[lease]]
                if lines:
                    (self._folder / f"{self._name}-{self._n_shipped:06d}.jsonl").write_bytes(
                        b"".join(lines)
                    )
                    self._n_shipped += 1
            except ParleyError as fault:
                with self._lock:
                    self._rows, self._fault = rows + self._rows, fault
                raise
            with self._lock:
                self._fault = None

    def close(self) -> None:
        """Upload the remaining rows, and end the thread. A later write starts it again.

        Raises:
            ServerUnavailable: the object store does not accept the rows.
        """
        with self._lock:
            thread, self._thread, self._ends = self._thread, None, True
        self._wake.set()
        if thread is not None:
            thread.join()
        self.flush()

    def wrote(self, path: Path) -> bool:
        """Return True if this writer uploaded the segment."""
        return path.name.startswith(f"{self._name}-")

    def discard(self) -> None:
        """Remove all rows, uploaded or not. The caller has already stored them elsewhere."""
        with self._shipping:
            with self._lock:
                self._rows, self._n_bytes, self._fault = [], 0, None
            for path in self._folder.glob(f"{self._name}-*.jsonl"):
                path.unlink(missing_ok=True)

    def _ship_on(self) -> None:
        while not self._ends:
            self._wake.wait(SHIP_EVERY_S)
            self._wake.clear()
            try:
                self.flush()
            except ParleyError:
                continue  # the next `write` raises it


def open_segment(
    folder: Path, what: str, *, fsync: bool = False
) -> SegmentWriter | ShippedSegments:
    """Return a writer of segments for a folder or an object store, see `SegmentWriter`."""
    if isinstance(folder, ObjectPath):
        return ShippedSegments(folder)
    return SegmentWriter(folder, what, fsync=fsync)


def _is_valid(lease: ShardLease) -> bool:
    try:
        lease.check()
    except LeaseLost:
        return False
    return True
