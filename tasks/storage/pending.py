"""Tells which episodes are finished, and what is kept of the others."""

# pyarrow.compute makes its functions when it is imported, so that no type checker knows them.
# pyright: reportAttributeAccessIssue=false

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.episode import Episode, StopReason
from schemas.lake.packed_rows import PackedRows
from schemas.lake.rows import from_arrow
from schemas.lake.tables import TABLES
from tasks.storage.journaling.journal import Unfinished
from tasks.storage.parquet_store import Lake, listing_again
from warehouse.lake import LakeRows

_HEAD = ["episode_id", "run_id", "stop_reason", "attempt", "finished_at"]
Ids = Iterable[str] | pa.ChunkedArray
_NO_HEADS = pa.schema([TABLES["episodes"].schema.field(name) for name in _HEAD]).empty_table()


@dataclass(eq=False)
class _Heads:
    """How the episodes of each file ended, by path, inode and time of the file."""

    of_file: dict[tuple[Path, int, int], pa.Table] = field(
        default_factory=dict[tuple[Path, int, int], pa.Table]
    )


_heads: WeakValueDictionary[tuple[str, str, str], _Heads] = WeakValueDictionary()
"""By lake, benchmark and model: the runs of a night, which go side by side, read each file once for all of them."""


class EpisodeFiles:
    """The episodes of a model on a benchmark, as the lake's files hold them now.

    It remembers how the episodes of each file ended, so asking again reads new files only. Inode and time tell a replaced file.
    """

    def __init__(self, lake: Lake, benchmark: str, model: str) -> None:
        self._lake, self._keys = lake, {"benchmark": benchmark, "model": model}
        self._heads = _heads.setdefault((str(lake.root), benchmark, model), _Heads())

    def heads(self, *, finished: bool = False) -> pa.Table:
        """Return id, run, stop reason, attempt and time of all episodes, or of the finished ones alone."""
        rows = pa.concat_tables([_NO_HEADS, *listing_again(self._look).values()])
        return (
            rows.filter(pc.not_equal(rows["stop_reason"], StopReason.INFRA.value))
            if finished
            else rows
        )

    def finished(self, among: Ids) -> dict[str, str]:
        """Finished episodes among the given ones -> the run that paid for each."""
        final = self.heads(finished=True)
        final = final.filter(pc.is_in(final["episode_id"], value_set=_text_array(among)))
        return dict(zip(final["episode_id"].to_pylist(), final["run_id"].to_pylist(), strict=True))

    def existing(self, wanted: Iterable[str]) -> set[str]:
        """Ids among the given ones that exist, finished or not."""
        return set(wanted).intersection(self.heads()["episode_id"].to_pylist())

    def rows(self, wanted: Ids) -> pa.Table:
        """As `episode_rows`."""
        return listing_again(lambda: self.chosen(wanted).read())

    def packed(self, wanted: Ids) -> PackedRows[Episode]:
        """Return the rows of `episode_rows`, compressed."""
        return listing_again(
            lambda: PackedRows[Episode].of_tables("episodes", self.chosen(wanted).pieces())
        )

    def chosen(self, wanted: Ids) -> LakeRows:
        """Return the rows of `episode_rows` by file and position. None of them is read."""
        heads = listing_again(self._look)
        parts, places = list(heads), dict[int, list[int]]()
        for number, at in _chosen_places(list(heads.values()), _text_array(wanted)):
            places.setdefault(number, []).append(at)
        return LakeRows(
            "episodes",
            tuple((parts[number], np.array(rows, np.int64)) for number, rows in places.items()),
        )

    def _look(self) -> dict[Path, pa.Table]:
        before, known = self._heads.of_file, dict[tuple[Path, int, int], pa.Table]()
        for part in self._lake.parts("episodes", **self._keys):
            found = part.stat()
            key = (part, found.st_ino, found.st_mtime_ns)
            known[key] = (
                before[key] if key in before else self._lake.read_arrow("episodes", [part], _HEAD)
            )
            before[key] = known[key]
        self._heads.of_file = known
        return {part: head for (part, *_), head in known.items()}


def episode_rows(lake: Lake, benchmark: str, model: str, wanted: Ids) -> pa.Table:
    """The wanted episodes that exist, as they lie in the lake, a row each.

    A final attempt counts before others, then the highest attempt, then the one that finished first. So a worker that comes back
    late changes nothing. The warehouse's `chosen_attempts` chooses alike.
    """
    return EpisodeFiles(lake, benchmark, model).rows(wanted)


def _text_array(texts: Ids) -> pa.Array:
    return (
        texts.combine_chunks()
        if isinstance(texts, pa.ChunkedArray)
        else pa.array(set(texts), pa.string())
    )


def _chosen_places(heads: Sequence[pa.Table], ids: pa.Array) -> list[tuple[int, int]]:
    """(part, row) of each wanted episode, in their order."""
    if not heads:
        return []
    starts = list(accumulate((head.num_rows for head in heads), initial=0))
    everything = pa.concat_tables(heads)
    found = pc.indices_nonzero(pc.is_in(everything["episode_id"], value_set=ids))
    best: dict[str, tuple[bool, int, str, int]] = {}
    for at, row in zip(found.to_pylist(), everything.take(found).to_pylist(), strict=True):
        rank = (
            row["stop_reason"] == StopReason.INFRA.value,
            -row["attempt"],
            row["finished_at"],
            at,
        )
        best[row["episode_id"]] = min(rank, best.get(row["episode_id"], rank))
    places = sorted(at for *_, at in best.values())
    return [
        (number, at - starts[number]) for at in places for number in (bisect_right(starts, at) - 1,)
    ]


def read_episodes(lake: Lake, benchmark: str, model: str, wanted: Ids) -> dict[str, Episode]:
    """The wanted episodes that exist, by id."""
    return {
        e.episode_id: e for e in from_arrow(episode_rows(lake, benchmark, model, wanted), Episode)
    }


def unfinished(
    pending: Iterable[str], journal: Mapping[str, Unfinished], stored: Mapping[str, Episode]
) -> dict[str, Unfinished]:
    """Return what is kept of pending episodes, by id: the longer of journal and stored (infra) attempt, and the highest attempt.

    Answers of an ended attempt are left out: they may be the reason why it ended as infra.
    """
    known: dict[str, Unfinished] = {}
    for episode_id in pending:
        candidates = [journal[episode_id]] if episode_id in journal else []
        if episode_id in stored:
            episode = stored[episode_id]
            candidates.append(Unfinished(episode.attempt, episode.steps))
        if candidates:
            longest = max(candidates, key=lambda c: (c.attempt, len(c.steps)))
            ended = stored[episode_id].attempt if episode_id in stored else 0
            answers = tuple(answer for c in candidates for answer in c.answers if answer[0] > ended)
            known[episode_id] = Unfinished(
                max(c.attempt for c in candidates), longest.steps, answers
            )
    return known
