"""Merging of a finished run's small parts into one.

A night writes hundreds of parts, which each later night would list. The merged part is written
before the others are removed. A kill between the two leaves duplicate rows, which all readers of
these tables tolerate, and which the next merge drops.
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
    """Merge a run's parts of episodes into one, with each attempt once. The caller locks the run.

    Args:
        lake: lake with the parts.
        keys: keys of the run's partition.

    Raises:
        SchemaMismatch: a part cannot be read. Nothing was changed.
        DiskFull: there is no room for the merged part. Nothing was changed.
    """
    parts = lake.parts("episodes", **keys)
    if len(parts) < 2:
        return
    heads = lake.read_arrow("episodes", parts, _HEAD)
    chosen = np.array(_one_of_each_attempt(heads), np.int64)
    name = rows_id(heads.take(chosen).select(_HEAD[:2]).to_pylist())
    written = lake.write_pieces(
        "episodes", _rows_at(lake.read_pieces("episodes", parts), chosen), name, **keys
    )
    _remove_others(parts, written)


def _rows_at(pieces: Iterable[pa.Table], places: np.ndarray) -> Iterator[pa.Table]:
    """Yield the rows of a table at ascending positions. The table comes in consecutive pieces."""
    start = 0
    for piece in pieces:
        first, after = np.searchsorted(places, (start, start + piece.num_rows))
        yield piece.take(places[first:after] - start)
        start += piece.num_rows


def _one_of_each_attempt(head: pa.Table) -> list[int]:
    """Return the positions of the rows to keep: one of each attempt, in order.

    A row without an infra fault is preferred, and then the first row.
    """
    best: dict[tuple[str, int], tuple[bool, int]] = {}
    for at, row in enumerate(head.to_pylist()):
        rank = (row["stop_reason"] == StopReason.INFRA.value, at)
        key = (row["episode_id"], row["attempt"])
        best[key] = min(rank, best.get(key, rank))
    return sorted(at for _, at in best.values())


def replace_by_one(
    lake: Lake, table: str, merged: pa.Table, name: str, parts: Sequence[Path], **keys: str
) -> None:
    """Write one part, then remove the parts that it replaces. Newer parts stay.

    Args:
        lake: lake with the parts.
        table: table of the parts.
        merged: rows of the new part.
        name: name of the new part.
        parts: parts whose rows `merged` contains.
        keys: keys of the partition.

    Raises:
        DiskFull: there is no room for the new part. Nothing was changed.
    """
    _remove_others(parts, lake.write_arrow(table, merged, name, **keys))


def _remove_others(parts: Sequence[Path], written: Path) -> None:
    for part in parts:
        if part != written:
            part.unlink(missing_ok=True)
