"""Segments in an object store: rows of two seconds are collected and uploaded as one segment.

An object store cannot append. So the rows of the open segment are in memory, and a kill loses them.
A row is not uploaded if its worker has lost the lease of the row's shard.
"""

import os
import secrets
import socket
import threading
from collections.abc import Mapping
from pathlib import Path

from schemas.errors import ParleyError
from tasks.storage.journaling.leases import LeaseLost, ShardLease
from tasks.storage.journaling.segments import SegmentWriter, line_of
from warehouse.object_path import ObjectPath

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
