"""Append-only files of a folder: each process has its own, one `write()` a row, so that a kill tears the last row at most.

A name stands for one content that only grows, for ever: readers keep how far they have read. A writer locks what it writes.
Each line begins with the checksum of its row. Lines of releases before 2026-12 have none.
"""

import errno
import fcntl
import json
import os
import secrets
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel

from tasks.storage.disk import naming_full_disk
from warehouse.object_path import ObjectPath

_SUM = b'{"crc":"'
_BODY_AT = len(_SUM) + len('01234567",')


class SegmentWriter:
    """One segment. Safe to use from several threads; opened at the first write.

    Args:
        what: what a row holds, for the message of a full disk.
    """

    def __init__(self, folder: Path, what: str, *, fsync: bool = False) -> None:
        self._folder, self._what, self._fsync = folder, what, fsync
        self._name, self._n_opened = f"{os.getpid()}-{secrets.token_hex(6)}", 0
        self._descriptor: int | None = None
        self._path: Path | None = None
        self._lock = threading.Lock()

    def write(self, *rows: Mapping[str, object], hold: object = None) -> None:
        """Keep rows, in one write.

        Args:
            hold: for `ShippedSegments`, which write later than they are told.

        Raises:
            DiskFull: no room. Rows that were written before stay readable.
            OSError: no right to write.
        """
        lines = b"".join(map(line_of, rows))
        with self._lock, naming_full_disk(self._what, self._folder, len(lines)):
            if self._descriptor is None:
                self._descriptor = self._open()
            written = os.write(self._descriptor, lines)
            if written != len(lines):
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


def dump_row(row: object) -> dict[str, object]:
    """Return the fields of a model without those at their default, or all fields of a dataclass."""
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
    """Return a row as a segment holds it: one line of JSON, whose first field is the checksum of the others."""
    try:
        body = orjson.dumps(row, default=dump_row)
    except TypeError:  # a lone surrogate, which UTF-8 cannot hold
        body = json.dumps(row, default=dump_row, ensure_ascii=False).encode("utf-8", "replace")
    return b'{"crc":"%08x",' % zlib.crc32(body) + body[1:] + b"\n"


def _row_of(line: bytes) -> dict[str, Any] | None:
    """Return the row of a line; None where the line is torn or damaged."""
    if line.startswith(_SUM):
        found, line = line[len(_SUM) : len(_SUM) + 8], b"{" + line[_BODY_AT:].rstrip(b"\n")
        if found != b"%08x" % zlib.crc32(line):
            return None
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) else None


class SegmentReader:
    """Reads segments of one folder again and again, each row once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._n_read: dict[Path, int] = {}
        """Segment -> bytes of it that were read."""

    def segments(self) -> list[Path]:
        """Return the segments that are there, in the order of their names."""
        return sorted(self._folder.glob("*.jsonl"))

    def new_rows(self, segments: Iterable[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Yield every whole row that was not read before, one at a time, with its segment.

        Rows torn by a kill or a full disk are left out, and so are damaged ones. A segment that was removed has none.
        """
        for segment, line in self._new_lines(segments):
            if (row := _row_of(line)) is not None:
                yield segment, row

    def _new_lines(self, segments: Iterable[Path]) -> Iterator[tuple[Path, bytes]]:
        if isinstance(self._folder, ObjectPath):  # an object comes whole, and never changes
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
                            if not line.endswith(
                                b"\n"
                            ):  # torn or being written: it is read again, and what follows with it
                                break
                            self._n_read[segment] += len(line)


def read_segments(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield every whole row of a folder's segments, one at a time."""
    reader = SegmentReader(folder)
    return (row for _, row in reader.new_rows(reader.segments()))


def remove_segments(folder: Path) -> None:
    """Remove a folder's segments, once Parquet holds their content."""
    if isinstance(folder, ObjectPath):
        folder.remove_below()
    elif folder.is_dir():
        for path in folder.glob("*.jsonl"):
            path.unlink(missing_ok=True)
        folder.rmdir()
