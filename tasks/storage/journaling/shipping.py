"""Segments in an object store: rows are gathered for two seconds, then shipped as one closed segment.

A store cannot append. So a process holds the rows of its open segment in memory, and a kill costs these. A row that came for a
shard which its worker has lost meanwhile is not shipped.
"""

import os
import secrets
import socket
import threading
from collections.abc import Mapping
from pathlib import Path

from schemas.errors import ParleyError
from tasks.storage.journaling.segments import SegmentWriter, line_of
from tasks.storage.journaling.tries import HeldShard, ShardTaken
from warehouse.object_path import ObjectPath

SHIP_EVERY_S = 2.0
SHIP_BYTES = 4 * 2**20
"""An open segment of this size is shipped at once."""


class ShippedSegments:
    """As a `SegmentWriter`, into a store. Safe to use from several threads; a thread of its own ships."""

    def __init__(self, folder: ObjectPath) -> None:
        self._folder = folder
        self._name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        """Two machines may have the same name, and the same process ids."""
        self._n_shipped = 0
        self._rows: list[tuple[bytes, HeldShard | None]] = []
        self._n_bytes = 0
        self._lock = threading.Lock()
        self._shipping = threading.Lock()
        """Held while a segment is under way, so that they arrive in their order."""
        self._wake = threading.Event()
        self._ends = False
        self._thread: threading.Thread | None = None
        self._fault: ParleyError | None = None

    def write(self, *rows: Mapping[str, object], hold: HeldShard | None = None) -> None:
        """Keep rows.

        Args:
            hold: the shard that they are written for.

        Raises:
            ServerUnavailable: rows before it could not be shipped, and still cannot.
        """
        lines = b"".join(map(line_of, rows))
        with self._lock:
            if self._fault is not None:
                raise self._fault
            self._rows.append((lines, hold))
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
        """Ship what is gathered.

        Raises:
            ServerUnavailable: the store does not take it. The rows stay here, and are sent again.
        """
        with self._shipping:
            with self._lock:
                rows, self._rows, self._n_bytes = self._rows, [], 0
            try:
                held = {
                    hold: _is_held(hold) for hold in {hold for _, hold in rows if hold is not None}
                }
                lines = [line for line, hold in rows if hold is None or held[hold]]
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
        """Ship the rest; a later write goes on.

        Raises:
            ServerUnavailable: as `flush`.
        """
        with self._lock:
            thread, self._thread, self._ends = self._thread, None, True
        self._wake.set()
        if thread is not None:
            thread.join()
        self.flush()

    def wrote(self, path: Path) -> bool:
        """Whether this process shipped that segment."""
        return path.name.startswith(f"{self._name}-")

    def discard(self) -> None:
        """Remove what was shipped, and what was to be: the rows are kept elsewhere."""
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
    """Return what writes rows below a folder, or a place in a store. See `SegmentWriter`."""
    if isinstance(folder, ObjectPath):
        return ShippedSegments(folder)
    return SegmentWriter(folder, what, fsync=fsync)


def _is_held(hold: HeldShard) -> bool:
    try:
        hold.check()
    except ShardTaken:
        return False
    return True
