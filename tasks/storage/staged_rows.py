"""Staged dialogs and problems as a worker reads them: by their place in a part of the lake, a row group at a time."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

import pyarrow as pa
from pydantic import BaseModel

from schemas.dialog import Dialog
from schemas.errors import CorruptRows
from schemas.lake.rows import from_arrow
from schemas.problem import Problem
from tasks.storage.parquet_store import Lake

M = TypeVar("M", bound=BaseModel)
_PARTS_OPEN = 8
_BYTES_AT_HAND = 8 * 2**20
"""Of each part, rows that stay in memory after they were read; at least one row group."""


class StagedPart(Generic[M]):
    """A part of a staged table. Safe to use from several threads.

    Args:
        key: column that tells which row is meant. A part that was written anew may have its rows in another order.
    """

    def __init__(self, lake: Lake, table: str, model: type[M], key: str, part: Path) -> None:
        self._model, self._key, self._part, self._lock = model, key, part, Lock()
        try:
            self._file = lake.open_part(table, part)
        except FileNotFoundError:
            raise CorruptRows(
                f"{part} is gone, and dialogues that are under way are of its rows. Type the same command again: it is made anew"
            ) from None
        found = self._file.metadata
        self._starts = list(
            accumulate(
                (found.row_group(n).num_rows for n in range(found.num_row_groups)), initial=0
            )
        )
        self._at_hand: OrderedDict[int, pa.Table] = OrderedDict()

    def find(self, rows: Sequence[tuple[int, str]]) -> list[M]:
        """Return the rows of these places and keys, in their order.

        Raises:
            CorruptRows: the part lacks a row of such a key.
        """
        with self._lock:
            found = self._read({place for place, _ in rows})
            if any(
                place not in found or getattr(found[place], self._key) != key for place, key in rows
            ):
                rows = self._moved([key for _, key in rows])
                found = self._read({place for place, _ in rows})
        return [found[place] for place, _ in rows]

    def _moved(self, keys: Sequence[str]) -> list[tuple[int, str]]:
        places = {
            key: place
            for place, key in enumerate(self._file.read([self._key])[self._key].to_pylist())
        }
        lost = [key for key in keys if key not in places]
        if lost:
            raise CorruptRows(
                f"{self._part} has no row with {self._key} {lost[0]!r}. Stage its data again: parley stage"
            )
        return [(places[key], key) for key in keys]

    def _read(self, places: Iterable[int]) -> dict[int, M]:
        of_group: dict[int, list[int]] = {}
        for place in sorted(places):
            if place < self._starts[-1]:
                of_group.setdefault(bisect_right(self._starts, place) - 1, []).append(place)
        found: dict[int, M] = {}
        for number, inside in of_group.items():
            rows = self._group(number).take(
                pa.array([place - self._starts[number] for place in inside], pa.int64())
            )
            found |= zip(inside, from_arrow(rows, self._model), strict=True)
        return found

    def _group(self, number: int) -> pa.Table:
        if number not in self._at_hand:
            self._at_hand[number] = self._file.read_row_group(number)
            while (
                len(self._at_hand) > 1
                and sum(rows.nbytes for rows in self._at_hand.values()) > _BYTES_AT_HAND
            ):
                self._at_hand.popitem(last=False)
        self._at_hand.move_to_end(number)
        return self._at_hand[number]


@lru_cache(_PARTS_OPEN)
def staged_dialogs(
    root: Path, benchmark: str, dataset_version: str, name: str
) -> StagedPart[Dialog]:
    """Return the part of staged dialogs of that name, opened once a process."""
    lake = Lake(root)
    folder = lake.folder("dialogs", benchmark=benchmark, dataset_version=dataset_version)
    return StagedPart(lake, "dialogs", Dialog, "row_digest", folder / f"part-{name}.parquet")


@lru_cache(_PARTS_OPEN)
def staged_problems(
    root: Path, benchmark: str, dataset_version: str, name: str
) -> StagedPart[Problem]:
    """Return the part of staged problems of that name, opened once a process."""
    lake = Lake(root)
    folder = lake.folder("problems", benchmark=benchmark, dataset_version=dataset_version)
    return StagedPart(lake, "problems", Problem, "problem_id", folder / f"part-{name}.parquet")
