"""Merges a run's many small parts into one when nothing is left to add: a night leaves hundreds, and each later night lists them.

The merged part is written before the others go. A kill in between leaves rows twice, which every reader of these tables allows
for; the next merge drops them.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from schemas.content_id import content_id
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
    rows = lake.read_arrow("episodes", parts)
    kept = _one_of_each_attempt(rows.select(_HEAD))
    merged = rows.take(pa.array(kept, pa.int64()))
    name = content_id(merged.select(_HEAD[:2]).to_pylist())
    replace_by_one(lake, "episodes", merged, name, parts, **keys)


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
    written = lake.write_arrow(table, merged, name, **keys)
    for part in parts:
        if part != written:
            part.unlink(missing_ok=True)
