"""Conversion of models to Arrow and back.

A dataset that is too large to stay in memory as models lies in compressed batches of rows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, Self, TypeVar, cast, overload

import pyarrow as pa
from pydantic import BaseModel, TypeAdapter, ValidationError

from schemas.errors import CorruptRows, SchemaMismatch
from schemas.grouping import grouped
from schemas.lake.tables import NAME_KEY, TABLES, VERSION_KEY
from schemas.outside.hidden import hidden

M = TypeVar("M", bound=BaseModel)

# When pyarrow first makes an array of a list, it imports pandas, which takes half a second. If that
# import fails, pyarrow works without pandas until a caller needs pandas itself (`to_pandas`), and
# then tries again.
with hidden("pandas"):
    pa.array([])

Converter = Callable[[Any], Any]


@cache
def _to_plain(kind: pa.DataType) -> Converter | None:
    """Return a converter from a model's value to Arrow's form of the type.

    None means that Arrow takes the value as it is.
    """
    if pa.types.is_list(kind):
        inner = _to_plain(kind.value_type)
        return (
            None
            if inner is None
            else lambda value: None if value is None else [inner(item) for item in value]
        )
    if not pa.types.is_struct(kind):
        return None
    if _is_pair(kind):
        return lambda pair: None if pair is None else {"key": pair[0], "value": pair[1]}
    fields = [(field.name, _to_plain(field.type)) for field in kind]

    def plain(value: Any) -> Any:
        if value is None:
            return None
        attributes = value.__dict__
        return {
            name: attributes[name] if inner is None else inner(attributes[name])
            for name, inner in fields
        }

    return plain


@cache
def _from_plain(kind: pa.DataType) -> Converter | None:
    """Return a converter from one Arrow type to the model's value.

    None means that the model takes the value as it is.
    """
    if pa.types.is_list(kind):
        inner = _from_plain(kind.value_type)
        return (
            None
            if inner is None
            else lambda value: None if value is None else tuple(inner(item) for item in value)
        )
    if not pa.types.is_struct(kind):
        return None
    if _is_pair(kind):
        return lambda pair: None if pair is None else (pair["key"], pair["value"])
    fields = [(field.name, _from_plain(field.type)) for field in kind]
    if not any(inner for _, inner in fields):
        return None

    def back(value: Any) -> Any:
        return (
            None
            if value is None
            else {
                name: value[name] if inner is None else inner(value[name]) for name, inner in fields
            }
        )

    return back


def _is_pair(kind: pa.DataType) -> bool:
    return [field.name for field in kind] == ["key", "value"]


def to_arrow(table: str, rows: Iterable[BaseModel]) -> pa.Table:
    """Convert rows of one table's model to an Arrow table of exactly that table's schema.

    Lone surrogates in text, which UTF-8 cannot encode, become `?`.

    Raises:
        TypeError: a row is not of the table's model.
    """
    spec = TABLES[table]
    dicts = []
    for row in rows:
        if not isinstance(row, spec.model):
            raise TypeError(
                f"table {table} holds {spec.model.__name__} rows, not {type(row).__name__}"
            )
        dicts.append(row.__dict__)
    return pa.Table.from_arrays(
        [_column(dicts, field) for field in spec.schema], schema=spec.schema
    )


def _column(rows: Sequence[dict[str, Any]], field: pa.Field) -> pa.Array:
    values = [row[field.name] for row in rows]
    convert = _to_plain(field.type)
    return column_of(
        values if convert is None else [convert(value) for value in values], field.type
    )


def column_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as an Arrow column. Lone surrogates in text become `?`, as in `to_arrow`."""
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([_clean_text(value) for value in values], kind)


def _clean_text(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8") if not value.isascii() else value
    if isinstance(value, (list, tuple)):
        return [_clean_text(item) for item in value]
    if isinstance(value, dict):
        return {key: _clean_text(item) for key, item in value.items()}
    return value


def check_version(table: str, schema: pa.Schema, place: str) -> None:
    """Check that this version of Parley's schema wrote a file.

    Raises:
        SchemaMismatch: another version wrote it. The message contains the file, both versions and
            the remedy.
    """
    metadata = schema.metadata or {}
    spec = TABLES[table]
    file_table = metadata.get(NAME_KEY, b"?").decode()
    file_version = metadata.get(VERSION_KEY, b"?").decode()
    if (file_table, file_version) != (table, str(spec.version)):
        raise SchemaMismatch(
            f"{place} holds table {file_table!r} of schema version {file_version}. "
            f"This Parley reads {table!r} version {spec.version}. "
            f"{_remedy(file_table == table, file_version, spec.version)}"
        )


def _remedy(is_same_table: bool, version: str, expected: int) -> str:
    if is_same_table and version.isdecimal():
        if int(version) < expected:
            return "Type `parley publish --migrate` to update the files of an older Parley"
        return "A newer Parley wrote it: install that version"
    return "Move the file away and run the command again to create a new one"


@cache
def _adapter(model: type[BaseModel]) -> TypeAdapter[Any]:
    return TypeAdapter(list[model])  # pyright: ignore[reportInvalidTypeForm]  (built at run time)


def from_arrow(data: pa.Table, model: type[M]) -> list[M]:
    """Convert rows to models, with validation.

    Raises:
        CorruptRows: the model does not allow a row. The message contains the row, the field and its
            value.
    """
    columns = {}
    for name, column in zip(data.column_names, data.columns, strict=True):
        convert = _from_plain(column.type)
        values = column.to_pylist()
        columns[name] = values if convert is None else [convert(value) for value in values]
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    try:
        return _adapter(model).validate_python(rows)
    except ValidationError as error:
        first = error.errors()[0]
        number, *steps = first["loc"]
        raise CorruptRows(
            f"{model.__name__} row {number}: {'.'.join(map(str, steps))} = "
            f"{first['input']!r:.80}: {first['msg']}. The Parquet file was changed or damaged "
            "since it was written. Remove it and run the same command again to create a new one"
        ) from error


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
        found: dict[int, M] = {}
        for number, positions in grouped((at // BATCH_ROWS, at) for at in places).items():
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
