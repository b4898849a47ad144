"""Vectors that were answered and are in no Parquet part yet: a line for each answer, kept as it comes.

So a kill costs the requests under way. Every process that looks finds the lines of all others, those of killed ones too.
"""

import base64
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from tasks.storage.journaling.segments import is_being_written
from tasks.storage.journaling.shipping import open_segment
from warehouse.object_path import ObjectPath

if TYPE_CHECKING:
    from tasks.language.embedding import Vector

_ABANDONED_S = 3600.0
"""A segment that nobody has written to for so long, and that no living process holds, is a killed writer's."""


class VectorSegments:
    """The lines of one embedder, as one process sees them."""

    def __init__(self, folder: Path, *, fsync: bool) -> None:
        self._folder = folder
        self._own = open_segment(folder, "vectors of texts", fsync=fsync)
        self._read: dict[Path, int] = {}
        """Segment -> bytes of it that were read."""
        self._rows: dict[Path, dict[str, Vector]] = {}
        self.held: dict[str, Vector] = {}
        """Text digest -> vector, of the segments that are there, but for this process's own."""

    def write(self, vectors: "Mapping[str, Vector]") -> None:
        """Keep one answer: text digest -> vector, all of one length.

        Raises:
            DiskFull, OSError: it could not be written.
            ServerUnavailable: the store took none of the answers before.
        """
        joined = b"".join(vector.tobytes() for vector in vectors.values())
        self._own.write({"digests": list(vectors), "vectors": base64.b64encode(joined).decode("ascii")})

    def look(self) -> None:
        """Bring `held` up to date. Look at the parts afterwards: they hold what is no longer in a segment."""
        there = [path for path in sorted(self._folder.glob("*.jsonl")) if not self._own.wrote(path)]
        for path in there:
            with suppress(FileNotFoundError):  # its writer has made a part of it
                new = dict(self._new_rows(path))
                self._rows.setdefault(path, {}).update(new)
                self.held |= new
        if gone := self._rows.keys() - set(there):
            for path in gone:
                del self._rows[path], self._read[path]
            self.held.clear()
            for rows in self._rows.values():
                self.held |= rows

    def discard(self) -> None:
        """Remove what this process wrote: a part holds it."""
        self._own.discard()

    def take_abandoned(self) -> "Iterator[dict[str, Vector]]":
        """All rows of each segment that a killed process left; it is removed once the caller comes back for the next."""
        for path in sorted(self._folder.glob("*.jsonl")):
            with suppress(FileNotFoundError):
                if self._own.wrote(path) or not _is_abandoned(path):
                    continue
                rows = self._rows.setdefault(path, {})
                rows.update(self._new_rows(path))
                yield rows
                if _is_abandoned(path):
                    path.unlink()

    def _new_rows(self, path: Path) -> "Iterator[tuple[str, Vector]]":
        import numpy as np

        start = self._read.setdefault(path, 0)
        if path.stat().st_size <= start:
            return
        content = path.read_bytes()[start:] if isinstance(path, ObjectPath) else _from(path, start)
        whole = content[: content.rfind(b"\n") + 1]
        self._read[path] = start + len(whole)
        for line in whole.splitlines():
            with suppress(orjson.JSONDecodeError, KeyError, ValueError):  # torn by a full disk
                row = orjson.loads(line)
                numbers = np.frombuffer(base64.b64decode(row["vectors"]), dtype=np.float32)
                yield from zip(row["digests"], numbers.reshape(len(row["digests"]), -1), strict=True)


def _is_abandoned(path: Path) -> bool:
    return time.time() - path.stat().st_mtime > _ABANDONED_S and not is_being_written(path)


def _from(path: Path, start: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read()
