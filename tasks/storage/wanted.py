"""Table of the episodes that a run must have, by id."""

# pyarrow.compute creates its functions at import, so type checkers do not know them.
# pyright: reportAttributeAccessIssue=false

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from schemas.run import RunSpec

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
