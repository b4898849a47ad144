"""Models to Arrow and back."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypeVar, overload

import pyarrow as pa
from pydantic import BaseModel, TypeAdapter, ValidationError

from schemas.errors import CorruptRows, SchemaMismatch
from schemas.lake.tables import NAME_KEY, TABLES, VERSION_KEY
from schemas.outside.hidden import hidden

M = TypeVar("M", bound=BaseModel)

# At the first array that it makes of a list, pyarrow looks for pandas, whose import takes half a second. Told that there is none,
# it believes so until it is asked for something of pandas itself (`to_pandas`), and then looks again.
with hidden("pandas"):
    pa.array([])

Converter = Callable[[Any], Any]
_BATCH = 500
"""Models that are made at a time."""


@cache
def _to_plain(kind: pa.DataType) -> Converter | None:
    """Converter from a model's value to Arrow's form of that type; None where Arrow takes the value as it is."""
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
        held = value.__dict__
        return {name: held[name] if inner is None else inner(held[name]) for name, inner in fields}

    return plain


@cache
def _from_plain(kind: pa.DataType) -> Converter | None:
    """Converter back from one Arrow type; None where the model takes the value as it is."""
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
    """Rows of one table's model as an Arrow table of exactly that table's schema.

    Lone surrogates in text, which UTF-8 cannot hold, become `?`.

    Raises:
        TypeError: a row is not of the table's model.
    """
    spec = TABLES[table]
    held = []
    for row in rows:
        if not isinstance(row, spec.model):
            raise TypeError(
                f"table {table} holds {spec.model.__name__} rows, not {type(row).__name__}"
            )
        held.append(row.__dict__)
    return pa.Table.from_arrays([_column(held, field) for field in spec.schema], schema=spec.schema)


def _column(rows: Sequence[dict[str, Any]], field: pa.Field) -> pa.Array:
    values = [row[field.name] for row in rows]
    convert = _to_plain(field.type)
    if convert is not None:
        values = [convert(value) for value in values]
    try:
        return pa.array(values, field.type)
    except UnicodeEncodeError:
        return pa.array([_clean_text(value) for value in values], field.type)


def _clean_text(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8") if not value.isascii() else value
    if isinstance(value, (list, tuple)):
        return [_clean_text(item) for item in value]
    if isinstance(value, dict):
        return {key: _clean_text(item) for key, item in value.items()}
    return value


def check_version(table: str, schema: pa.Schema, place: str) -> None:
    """Refuse a file that another schema version wrote.

    Raises:
        SchemaMismatch: names the file, both versions and the remedy.
    """
    metadata = schema.metadata or {}
    spec = TABLES[table]
    found_name, found_version = (
        metadata.get(NAME_KEY, b"?").decode(),
        metadata.get(VERSION_KEY, b"?").decode(),
    )
    if (found_name, found_version) != (table, str(spec.version)):
        raise SchemaMismatch(
            f"{place} holds table {found_name!r} of schema version {found_version}. This Parley reads {table!r} version"
            f" {spec.version}. {_remedy(found_name == table, found_version, spec.version)}"
        )


def _remedy(is_same_table: bool, found: str, wanted: int) -> str:
    if is_same_table and found.isdecimal():
        if int(found) < wanted:
            return "Type `parley publish --migrate` to update the files of an older Parley"
        return "A newer Parley wrote it: install that version"
    return "Move the file away and run again to make it anew"


@cache
def _adapter(model: type[BaseModel]) -> TypeAdapter[Any]:
    return TypeAdapter(list[model])  # pyright: ignore[reportInvalidTypeForm]  (a type made at run time)


def from_arrow(data: pa.Table, model: type[M]) -> list[M]:
    """Rows as models, validated.

    Raises:
        CorruptRows: a row that the model does not allow; names the row, the field and its value.
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
            f"{model.__name__} row {number}: {'.'.join(map(str, steps))} = {first['input']!r:.80}: {first['msg']}. The Parquet"
            " file was changed or damaged since it was written. Remove it and type the same command again to make it anew"
        ) from error


class ModelRows(Sequence[M]):
    """Rows as models, made anew some hundred at a time whenever they are read: a table takes a tenth of their memory."""

    def __init__(self, data: pa.Table, model: type[M]) -> None:
        self.data, self._model = data, model

    def __len__(self) -> int:
        return self.data.num_rows

    def __iter__(self) -> Iterator[M]:
        for start in range(0, len(self), _BATCH):
            yield from from_arrow(self.data.slice(start, _BATCH), self._model)

    @overload
    def __getitem__(self, at: int) -> M: ...
    @overload
    def __getitem__(self, at: slice) -> "ModelRows[M]": ...
    def __getitem__(self, at: int | slice) -> "M | ModelRows[M]":
        places = range(len(self))[at]
        return (
            self.take(places)
            if isinstance(places, range)
            else from_arrow(self.data.slice(places, 1), self._model)[0]
        )

    def take(self, places: Sequence[int]) -> "ModelRows[M]":
        """Rows at these places, in their order."""
        return ModelRows(self.data.take(pa.array(places, pa.int64())), self._model)
