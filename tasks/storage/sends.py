"""Log of a run's sends. Each process writes its sends at once, so a killed worker's are counted."""

from collections import Counter
from contextlib import suppress
from pathlib import Path

from schemas.night.requests import RequestCounts
from tasks.language.sends import Send
from tasks.storage.journaling.segments import read_segments, remove_segments
from tasks.storage.journaling.shipping import open_segment


class SendLog:
    """Log of one process. Several threads may use it. Its segment is created at the first send."""

    def __init__(self, folder: Path) -> None:
        self._segment = open_segment(folder, "a count of requests")

    def count(self, send: Send, *, is_embedder: bool = False) -> None:
        """Write one send.

        Args:
            send: send that ended.
            is_embedder: True if it went to the run's embedder.

        Raises:
            DiskFull: the disk is full.
            OSError: the process may not write.
            ServerUnavailable: the object store does not accept segments.
        """
        self._segment.write(
            {"is_repeated": send.is_repeated, "is_paid": send.is_paid, "is_embedder": is_embedder}
        )

    def count_embedder(self, send: Send) -> None:
        """Write one send to the run's embedder. Raises the errors of `count`."""
        self.count(send, is_embedder=True)

    def close(self) -> None:
        """Close the segment. A later send opens another one."""
        self._segment.close()


def remove_sends(folder: Path) -> None:
    """Remove the segments of a folder, once the run's record contains their counts.

    If another process still writes to the folder, errors are ignored.
    """
    with suppress(OSError):
        remove_segments(folder)


def read_sends(folder: Path) -> RequestCounts:
    """Return the counts of all sends below a folder."""
    n = Counter[str]()
    for row in read_segments(folder):
        n["repeated" if row.get("is_repeated") else "asked"] += 1
        n["paid" if row.get("is_paid") else "refused"] += 1
        n["embedder"] += bool(row.get("is_paid") and row.get("is_embedder"))
    return RequestCounts(**n)
