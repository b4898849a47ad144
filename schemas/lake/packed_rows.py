"""Rows of a table in compressed batches, for datasets too large to stay in memory as models."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Self, TypeVar, cast, overload

import pyarrow as pa
from pydantic import BaseModel

from schemas.lake.rows import from_arrow, to_arrow
from schemas.lake.tables import TABLES

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
BATCH_ROWS = 256
"""Number of rows in a batch."""
_CACHED_BATCHES = 4
"""Number of batches whose models stay in memory after they were read."""


class PackedRows(Sequence[M]):
    """Rows of one table in compressed batches of 256. Each read makes models from them.

    100,000 dialogs of six turns take 1 GB as models, and about 40 MB here. The last rows, too few
    for a batch, stay models.
    """

    def __init__(self, table: str, rows: Iterable[M] = ()) -> None:
        self._table = table
        self._model = cast(type[M], TABLES[table].model)
        self._packed: list[tuple[int, bytes]] = []  # (bytes when unpacked, compressed record batch)
        self._loose: list[M] = []
        self._cached_batches: dict[int, list[M]] = {}
        self.extend(rows)

    @classmethod
    def of(cls, table: str, rows: Iterable[M]) -> "PackedRows[M]":
        """Return `rows` unchanged if they are packed already, otherwise pack them."""
        return rows if isinstance(rows, PackedRows) else cls(table, rows)

    @classmethod
    def of_tables(cls, table: str, pieces: Iterable[pa.Table]) -> Self:
        """Pack Arrow tables of any size that have the table's schema."""
        packed = cls(table)
        rest = TABLES[table].schema.empty_table()
        for piece in pieces:
            rest = pa.concat_tables([rest, piece])
            while rest.num_rows >= BATCH_ROWS:
                packed._pack(rest.slice(0, BATCH_ROWS))
                rest = rest.slice(BATCH_ROWS)
        packed._loose = from_arrow(rest, packed._model)
        return packed

    def append(self, row: M) -> None:
        """Add a row at the end."""
        self._loose.append(row)
        if len(self._loose) == BATCH_ROWS:
            self._pack(to_arrow(self._table, self._loose))
            self._loose = []

    def extend(self, rows: Iterable[M]) -> None:
        """Add rows at the end, in order."""
        for row in rows:
            self.append(row)

    def tables(self) -> Iterator[pa.Table]:
        """Yield all rows as Arrow tables of 256 rows. The last one may have fewer."""
        for number in range(len(self._packed)):
            yield self._unpacked(number)
        if self._loose:
            yield to_arrow(self._table, self._loose)

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows as one Arrow table, with the given columns. None: all columns."""
        schema = TABLES[self._table].schema
        pieces = (
            # The copy frees the other columns: all share the memory of one unpacked batch.
            piece if columns is None else piece.select(columns).take(pa.array(range(len(piece))))
            for piece in self.tables()
        )
        first = schema.empty_table()
        return pa.concat_tables([first if columns is None else first.select(columns), *pieces])

    def take(self, places: Sequence[int]) -> list[M]:
        """Return the rows at these positions, in their order. Each batch is unpacked once."""
        in_batch: dict[int, list[int]] = {}
        for at in places:
            in_batch.setdefault(at // BATCH_ROWS, []).append(at)
        found: dict[int, M] = {}
        for number, positions in in_batch.items():
            inside = [at % BATCH_ROWS for at in positions]
            rows = (
                from_arrow(self._unpacked(number).take(pa.array(inside, pa.int64())), self._model)
                if number < len(self._packed)
                else [self._loose[at] for at in inside]
            )
            found |= zip(positions, rows, strict=True)
        return [found[at] for at in places]

    def __len__(self) -> int:
        return len(self._packed) * BATCH_ROWS + len(self._loose)

    def __iter__(self) -> Iterator[M]:
        for number in range(len(self._packed)):
            yield from self._unpacked_models(number)
        yield from self._loose

    @overload
    def __getitem__(self, at: int) -> M: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[M, ...]: ...
    def __getitem__(self, at: int | slice) -> M | tuple[M, ...]:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            return (
                tuple(islice(self, start, stop))
                if step == 1
                else tuple(self[place] for place in range(start, stop, step))
            )
        number, place = divmod(range(len(self))[at], BATCH_ROWS)
        return self._batch(number)[place] if number < len(self._packed) else self._loose[place]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(
            own == theirs for own, theirs in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  (rows can be added)

    def _pack(self, rows: pa.Table) -> None:
        raw = rows.combine_chunks().to_batches()[0].serialize()
        self._packed.append((raw.size, pa.compress(raw, "zstd", asbytes=True)))

    def _unpacked(self, number: int) -> pa.Table:
        size, packed = self._packed[number]
        batch = pa.ipc.read_record_batch(
            pa.decompress(packed, size, "zstd"), TABLES[self._table].schema
        )
        return pa.Table.from_batches([batch])

    def _batch(self, number: int) -> list[M]:
        models = self._cached_batches.get(number)
        if models is None:
            models = self._cached_batches[number] = self._unpacked_models(number)
            for earlier in list(self._cached_batches)[:-_CACHED_BATCHES]:
                self._cached_batches.pop(earlier, None)
        return models

    def _unpacked_models(self, number: int) -> list[M]:
        return from_arrow(self._unpacked(number), self._model)


class KeyedRows(Mapping[str, T]):
    """Mapping from keys to rows of a sequence, in the order of the keys.

    It keeps a hash of each key instead of a dictionary of Python strings.

    Args:
        rows: sequence that contains the rows.
        keys: keys of the rows: distinct strings.
        places: position in `rows` of each key's row.
    """

    def __init__(self, rows: Sequence[T], keys: pa.Array, places: pa.Array) -> None:
        import numpy as np  # `parley show` reads some rows without it

        self._rows, self._keys, self._places = rows, keys, places
        hashes = np.fromiter(map(hash, keys.to_pylist()), np.int64, len(keys))
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    def __getitem__(self, key: str) -> T:
        return self._rows[self.place(key)]

    def place(self, key: str) -> int:
        """Return the position in the sequence of a key's row.

        Raises:
            KeyError: no row has the key.
        """
        first, after = (self._hashes.searchsorted(hash(key), side) for side in ("left", "right"))
        for at in self._order[first:after]:
            if self._keys[at].as_py() == key:
                return self._places[at].as_py()
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys.to_pylist())

    def __len__(self) -> int:
        return len(self._keys)
