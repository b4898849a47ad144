"""Rows of a run in the lake: its wanted episodes, its finished episodes, and its test verdicts.

A verdict is forged if the tests also pass with a false expectation (see `AuditOutcome`). The lake's
rows of `test_verdicts` do not change: reading them counts a forged pass as failed.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import accumulate
from pathlib import Path
from typing import overload
from weakref import WeakValueDictionary

import pyarrow as pa
import pyarrow.compute as pc

from schemas.audit import AuditOutcome, ForgeryAudit
from schemas.episode import Episode, StopReason
from schemas.grouping import grouped
from schemas.lake.rows import PackedRows, from_arrow
from schemas.lake.tables import TABLES
from schemas.run import RunSpec
from schemas.verdict import FailureReason, Outcome, TestVerdict
from tasks.storage.parquet_store import Lake, listing_again
from warehouse.lake import LakeRows

# pyarrow.compute creates its functions at import, so type checkers do not know them.
# pyright: reportAttributeAccessIssue=false


_HEAD = ["episode_id", "run_id", "stop_reason", "attempt", "finished_at"]
Ids = Iterable[str] | pa.ChunkedArray
_NO_HEADS = pa.schema([TABLES["episodes"].schema.field(name) for name in _HEAD]).empty_table()


@dataclass(eq=False)
class _Heads:
    """Cached heads (id, outcome, attempt) of the episodes in each file, by path, inode and time."""

    of_file: dict[tuple[Path, int, int], pa.Table] = field(
        default_factory=dict[tuple[Path, int, int], pa.Table]
    )


_heads: WeakValueDictionary[tuple[str, str, str], _Heads] = WeakValueDictionary()
"""Outcomes by lake, benchmark and model. Concurrent runs of a night share them."""


class EpisodeFiles:
    """Episodes of a model on a benchmark in the lake's present files.

    Outcomes are cached for each file, so a repeated call reads only new files. A replaced file has
    another inode or time.
    """

    def __init__(self, lake: Lake, benchmark: str, model: str) -> None:
        self._lake, self._keys = lake, {"benchmark": benchmark, "model": model}
        self._heads = _heads.setdefault((str(lake.root), benchmark, model), _Heads())

    def heads(self, *, finished: bool = False) -> pa.Table:
        """Return id, run, stop reason, attempt and time of all (or only the finished) episodes."""
        rows = pa.concat_tables([_NO_HEADS, *listing_again(self._look).values()])
        return (
            rows.filter(pc.not_equal(rows["stop_reason"], StopReason.INFRA.value))
            if finished
            else rows
        )

    def finished(self, among: Ids) -> dict[str, str]:
        """Map each finished episode of `among` to the run that paid for it."""
        final = self.heads(finished=True)
        final = final.filter(pc.is_in(final["episode_id"], value_set=_text_array(among)))
        return dict(zip(final["episode_id"].to_pylist(), final["run_id"].to_pylist(), strict=True))

    def existing(self, wanted: Iterable[str]) -> set[str]:
        """Return the ids in `wanted` whose episode exists, finished or not."""
        return set(wanted).intersection(self.heads()["episode_id"].to_pylist())

    def rows(self, wanted: Ids) -> pa.Table:
        """Return the wanted episodes that exist as rows of the lake, one for each episode.

        A final attempt is preferred, then the highest attempt, then the attempt that finished
        first. So a worker that returns late changes nothing. The warehouse's `chosen_attempts` has
        the same rule.
        """
        return listing_again(lambda: self.chosen(wanted).read())

    def packed(self, wanted: Ids) -> PackedRows[Episode]:
        """Return the same episodes as `rows`, compressed in memory."""
        return listing_again(
            lambda: PackedRows[Episode].of_tables("episodes", self.chosen(wanted).pieces())
        )

    def chosen(self, wanted: Ids) -> LakeRows:
        """Return file and position of the episodes that `rows` returns, without reading them."""
        heads = listing_again(self._look)
        parts = list(heads)
        places = grouped(_chosen_places(list(heads.values()), _text_array(wanted)))
        return LakeRows(
            "episodes",
            tuple((parts[number], array("q", rows)) for number, rows in places.items()),
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


def _text_array(texts: Ids) -> pa.Array:
    return (
        texts.combine_chunks()
        if isinstance(texts, pa.ChunkedArray)
        else pa.array(set(texts), pa.string())
    )


def _chosen_places(heads: Sequence[pa.Table], ids: pa.Array) -> list[tuple[int, int]]:
    """Return (part, row) of each wanted episode, sorted by position."""
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
    """Return the wanted episodes that exist, by id."""
    rows = EpisodeFiles(lake, benchmark, model).rows(wanted)
    return {episode.episode_id: episode for episode in from_arrow(rows, Episode)}


_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class WantedEpisode:
    """Episode that a run must have: one sample of one dialog."""

    episode_id: str
    row_digest: str
    problem_id: str
    dialog_id: str
    at: int
    """Position of the dialog among those that the setting plays."""
    sample: int
    seed: int


_NAMES = [field.name for field in fields(WantedEpisode)]


class WantedEpisodes(Sequence[WantedEpisode]):
    """Wanted episodes as a table whose columns are the fields of `WantedEpisode`."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows.combine_chunks()

    @property
    def ids(self) -> pa.ChunkedArray:
        """Ids of the episodes, in order."""
        return self.rows["episode_id"]

    @property
    def problem_ids(self) -> list[str]:
        """Distinct problems of the episodes, in order."""
        return self.rows["problem_id"].unique().to_pylist()

    def among(self, ids: pa.ChunkedArray) -> "WantedEpisodes":
        """Return the episodes whose id is in `ids`."""
        return self._where(pc.is_in(self.ids, value_set=ids.combine_chunks()))

    def without(self, ids: pa.ChunkedArray) -> "WantedEpisodes":
        """Return the episodes whose id is not in `ids`."""
        return self._where(pc.invert(pc.is_in(self.ids, value_set=ids.combine_chunks())))

    def of_problems(self, names: Iterable[str]) -> "WantedEpisodes":
        """Return the episodes of these problems."""
        return self._where(
            pc.is_in(self.rows["problem_id"], value_set=pa.array(set(names), pa.string()))
        )

    def take(self, places: Sequence[int]) -> "WantedEpisodes":
        """Return the episodes at these positions, in this order."""
        return WantedEpisodes(self.rows.take(pa.array(places, pa.int64())))

    def _where(self, mask: pa.ChunkedArray) -> "WantedEpisodes":
        return self if pc.all(mask).as_py() else WantedEpisodes(self.rows.filter(mask))

    def __len__(self) -> int:
        return self.rows.num_rows

    def __iter__(self) -> Iterator[WantedEpisode]:
        for start in range(0, len(self), _AT_ONCE):
            yield from _episodes(self.rows.slice(start, _AT_ONCE))

    @overload
    def __getitem__(self, at: int) -> WantedEpisode: ...
    @overload
    def __getitem__(self, at: slice) -> "WantedEpisodes": ...
    def __getitem__(self, at: int | slice) -> "WantedEpisode | WantedEpisodes":
        places = range(len(self))[at]
        return (
            self.take(places)
            if isinstance(places, range)
            else next(_episodes(self.rows.slice(places, 1)))
        )


def _episodes(rows: pa.Table) -> Iterator[WantedEpisode]:
    return (
        WantedEpisode(*values)
        for values in zip(*(rows[name].to_pylist() for name in _NAMES), strict=True)
    )


def wanted_episodes(spec: RunSpec, dialogs: pa.Table) -> WantedEpisodes:
    """Return all episodes of a run: for each dialog, all samples.

    Args:
        spec: spec of the run.
        dialogs: a row for each dialog, in order, with the columns `digest`, `row_digest`,
            `problem_id` and `dialog_id`.
    """
    n, digests = dialogs.num_rows, dialogs["digest"].to_pylist()
    ids = pa.chunked_array(
        [
            pa.array(spec.episode_ids(digests, sample), pa.string(), size=n)
            for sample in range(spec.samples)
        ],
        pa.string(),
    )
    at = pa.array(
        (place for place in range(n) for _ in range(spec.samples)),
        pa.int32(),
        size=n * spec.samples,
    )
    samples = pa.array(
        (sample for _ in range(n) for sample in range(spec.samples)),
        pa.int32(),
        size=n * spec.samples,
    )
    by_sample = pc.add(pc.multiply(samples.cast(pa.int64()), n), at)  # `ids` is sorted by sample
    columns = {
        "episode_id": ids.take(by_sample),
        **{name: dialogs[name].take(at) for name in ("row_digest", "problem_id", "dialog_id")},
        "at": at,
        "sample": samples,
        "seed": pc.add(samples.cast(pa.int64()), spec.seed),
    }
    return WantedEpisodes(pa.table(columns))


_KEY = ("episode_id", "turn", "instruction_id", "verdict_id")


def read_verdicts(lake: Lake, **keys: str) -> list[TestVerdict]:
    """Return a run's test verdicts. Forged passes count as failed, with the reason `forged`."""
    return from_arrow(verdict_table(lake, **keys), TestVerdict)


def verdict_table(lake: Lake, **keys: str) -> pa.Table:
    """Return a run's test verdicts like `read_verdicts`, but as an Arrow table."""
    rows = listing_again(
        lambda: lake.read_arrow("test_verdicts", lake.parts("test_verdicts", **keys))
    )
    return with_forged_failed(rows, lake.read("forgery_audit", ForgeryAudit, **keys))


def with_forged_failed(rows: pa.Table, audits: list[ForgeryAudit]) -> pa.Table:
    """Return the rows with each forged pass changed to a failure.

    Outcome, detail, reason and number of passed cases of a forged pass change.
    """
    forged = {_key(audit): audit for audit in audits if audit.outcome is AuditOutcome.FORGED}
    if not forged:
        return rows
    places = list(zip(*(rows[name].to_pylist() for name in _KEY), strict=True))
    forged_rows = {at: forged[key] for at, key in enumerate(places) if key in forged}
    for name in ("outcome", "detail", "reason", "n_passed"):
        values = rows[name].to_pylist()
        for at, audit in forged_rows.items():
            values[at] = _failed_value(name, values[at], audit)
        at_column = rows.schema.get_field_index(name)
        rows = rows.set_column(
            at_column, rows.schema.field(name), pa.array(values, rows.schema.field(name).type)
        )
    return rows


def _failed_value(column: str, value: object, audit: ForgeryAudit) -> object:
    if column == "n_passed":
        return None if value is None else 0
    return {"outcome": Outcome.FAILED.value, "reason": FailureReason.FORGED.value}.get(
        column, forged_detail(audit)
    )


def forged_detail(audit: ForgeryAudit) -> str:
    """Return the detail of a forged pass, as in the warehouse's view `test_verdicts`."""
    return f"forged: the tests also pass with {audit.decoy}"


def _key(audit: ForgeryAudit) -> tuple[str, int, str, str]:
    return audit.episode_id, audit.turn, audit.instruction_id, audit.verdict_id
