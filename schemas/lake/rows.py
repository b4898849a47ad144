"""Conversion of models to Arrow and back."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import BaseModel, TypeAdapter, ValidationError

from schemas.errors import CorruptRows, SchemaMismatch
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
