"""Merges a run's many small parts into one when nothing is left to add: a night leaves hundreds, and each later night lists them.

The merged part is written before the others go. A kill in between leaves rows twice, which every reader of these tables allows
for; the next merge drops them.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from schemas.content_id import rows_id
from schemas.episode import StopReason
from tasks.storage.parquet_store import Lake

_HEAD = ["episode_id", "attempt", "stop_reason"]


def merge_episodes(lake: Lake, **keys: str) -> None:
    """Make one part of a run's episodes: every attempt, once. The caller holds the run.

    Args:
        keys: of the run's partition.

    Raises:
        SchemaMismatch: a part that cannot be read; nothing was changed.
        DiskFull: no room for the merged part; nothing was changed.
    """
    parts = lake.parts("episodes", **keys)
    if len(parts) < 2:
        return
    heads = lake.read_arrow("episodes", parts, _HEAD)
    kept = np.array(_one_of_each_attempt(heads), np.int64)
    name = rows_id(heads.take(kept).select(_HEAD[:2]).to_pylist())
    written = lake.write_pieces(
        "episodes", _taken(lake.read_pieces("episodes", parts), kept), name, **keys
    )
    _remove_others(parts, written)


def _taken(pieces: Iterable[pa.Table], places: np.ndarray) -> Iterator[pa.Table]:
    """Yield the rows at these places, which ascend, of rows that come in pieces."""
    start = 0
    for piece in pieces:
        first, after = np.searchsorted(places, (start, start + piece.num_rows))
        yield piece.take(places[first:after] - start)
        start += piece.num_rows


def _one_of_each_attempt(head: pa.Table) -> list[int]:
    """Rows to keep, in their order: the first row of each attempt, but a row that ended well before a row that infra ended."""
    best: dict[tuple[str, int], tuple[bool, int]] = {}
    for at, row in enumerate(head.to_pylist()):
        rank = (row["stop_reason"] == StopReason.INFRA.value, at)
        key = (row["episode_id"], row["attempt"])
        best[key] = min(rank, best.get(key, rank))
    return sorted(at for _, at in best.values())


def replace_by_one(
    lake: Lake, table: str, merged: pa.Table, name: str, parts: Sequence[Path], **keys: str
) -> None:
    """Write one part, then remove the parts whose rows it holds. Parts that came meanwhile stay.

    Raises:
        DiskFull: no room for it; nothing was changed.
    """
    _remove_others(parts, lake.write_arrow(table, merged, name, **keys))


def _remove_others(parts: Sequence[Path], written: Path) -> None:
    for part in parts:
        if part != written:
            part.unlink(missing_ok=True)
