"""Models to Arrow and back."""

from collections.abc import Iterable
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import BaseModel, ValidationError

from schemas.errors import CorruptRows, SchemaMismatch
from schemas.tables import NAME_KEY, TABLES, VERSION_KEY

M = TypeVar("M", bound=BaseModel)


def _pairs_to_structs(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [_pairs_to_structs(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        if isinstance(value, (tuple, list)):
            return {"key": value[0], "value": value[1]}
        return {field.name: _pairs_to_structs(value[field.name], field.type) for field in kind}
    return value


def _structs_to_pairs(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_list(kind):
        return tuple(_structs_to_pairs(item, kind.value_type) for item in value)
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        if names == ["key", "value"]:
            return (value["key"], value["value"])
        return {field.name: _structs_to_pairs(value[field.name], field.type) for field in kind}
    return value


def to_arrow(table: str, rows: Iterable[BaseModel]) -> pa.Table:
    """Rows of one table's model as an Arrow table of exactly that table's schema.

    Lone surrogates in text, which UTF-8 cannot hold, become `?`.

    Raises:
        TypeError: a row is not of the table's model.
    """
    spec = TABLES[table]
    dumped = []
    for row in rows:
        if not isinstance(row, spec.model):
            raise TypeError(f"table {table} holds {spec.model.__name__} rows, not {type(row).__name__}")
        dumped.append(
            {f.name: _pairs_to_structs(v, f.type) for f, v in zip(spec.schema, row.model_dump(mode="json").values(), strict=True)}
        )
    try:
        return pa.Table.from_pylist(dumped, schema=spec.schema)
    except UnicodeEncodeError:
        return pa.Table.from_pylist([_clean_text(row) for row in dumped], schema=spec.schema)


def _clean_text(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8") if not value.isascii() else value
    if isinstance(value, list):
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
    found_name, found_version = metadata.get(NAME_KEY, b"?").decode(), metadata.get(VERSION_KEY, b"?").decode()
    if (found_name, found_version) != (table, str(spec.version)):
        raise SchemaMismatch(
            f"{place} holds table {found_name!r} of schema version {found_version}, this Parley reads {table!r} version"
            f" {spec.version}. Use the Parley that wrote it, or move the file away and run again to make it anew"
        )


def from_arrow(data: pa.Table, model: type[M]) -> list[M]:
    """Rows as models, validated.

    Raises:
        CorruptRows: a row that the model does not allow; names the row, the field and its value.
    """
    kinds = {field.name: field.type for field in data.schema}
    rows: list[M] = []
    for number, row in enumerate(data.to_pylist()):
        try:
            rows.append(model.model_validate({name: _structs_to_pairs(value, kinds[name]) for name, value in row.items()}))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(step) for step in first["loc"])
            raise CorruptRows(
                f"{model.__name__} row {number}: {place} = {first['input']!r:.80}: {first['msg']}. The Parquet file was changed"
                " or damaged since it was written: remove it and type the same command again, which makes it anew"
            ) from error
    return rows
