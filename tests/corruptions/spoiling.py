"""Ways to spoil a file of the lake, each with a seed that chooses file and row."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.lake.tables import VERSION_KEY

Row = dict[str, Any]
Rows = list[Row]
Change = Callable[[Rows, random.Random], object]
Spoil = Callable[[Path, random.Random], None]
"""Spoils one of the parts in a folder (or below it)."""


def parts(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("part-*.parquet"))
    assert found, f"nothing to spoil in {folder}"
    return found


def read(part: Path) -> tuple[pa.Schema, Rows]:
    with pq.ParquetFile(part) as file:
        return file.schema_arrow, file.read().to_pylist()


def write(part: Path, schema: pa.Schema, rows: Rows) -> None:
    """As a faulty stage would have written it: with the table's name and version, and nulls where
    the rows have them.
    """
    try:
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), part, compression="zstd")
    except pa.ArrowInvalid:
        nullable = pa.schema(
            [pa.field(f.name, _nullable(f.type)) for f in schema], metadata=schema.metadata
        )
        pq.write_table(pa.Table.from_pylist(rows, schema=nullable), part, compression="zstd")


def _nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_nullable(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _nullable(f.type)) for f in kind])
    return kind


def rows_changed(change: Change, at_least: int = 1) -> Spoil:
    """Change the rows of one part that has so many."""

    def spoil(folder: Path, rng: random.Random) -> None:
        part = rng.choice([p for p in parts(folder) if len(read(p)[1]) >= at_least])
        schema, rows = read(part)
        change(rows, rng)
        write(part, schema, rows)

    return spoil


def put(column: str, value: Any) -> Spoil:
    """Another value in one row."""

    def change(rows: Rows, rng: random.Random) -> None:
        rng.choice(rows)[column] = value

    return rows_changed(change)


def put_everywhere(**values: Any) -> Spoil:
    def change(rows: Rows, _: random.Random) -> None:
        for row in rows:
            row |= values

    return rows_changed(change)


def put_where(column: str, value: Any, when: Callable[[Row], bool], **more: Any) -> Spoil:
    """Other values in one of the rows for which `when` holds."""

    def change(rows: Rows, rng: random.Random) -> None:
        rng.choice([row for row in rows if when(row)]).update({column: value, **more})

    return rows_changed(change)


def added(column: str, amount: int) -> Spoil:
    def change(rows: Rows, rng: random.Random) -> None:
        rng.choice(rows)[column] += amount

    return rows_changed(change)


def lost(rows: Rows, rng: random.Random) -> None:
    del rows[rng.randrange(len(rows))]


def doubled(rows: Rows, rng: random.Random) -> None:
    rows.append(dict(rng.choice(rows)))


def doubled_with(**values: Any) -> Spoil:
    """One row once more, with other values."""

    def change(rows: Rows, rng: random.Random) -> None:
        rows.append(rng.choice(rows) | values)

    return rows_changed(change)


def exchanged(column: str) -> Spoil:
    """Two rows have each other's value."""

    def change(rows: Rows, rng: random.Random) -> None:
        first = rng.choice(rows)
        second = rng.choice([row for row in rows if row[column] != first[column]])
        first[column], second[column] = second[column], first[column]

    return rows_changed(change, at_least=2)


def said(change: Callable[[Rows, random.Random], object], column: str = "steps") -> Spoil:
    """Change the messages of one episode or dialog."""

    def of_row(rows: Rows, rng: random.Random) -> None:
        change(rng.choice([row for row in rows if len(row[column]) > 2])[column], rng)

    return rows_changed(of_row)


def roles_swapped(messages: Rows, rng: random.Random) -> None:
    at = 2 * rng.randrange(len(messages) // 2)
    for message in messages[at : at + 2]:
        message["role"] = "assistant" if message["role"] == "user" else "user"


def turn_doubled(messages: Rows, rng: random.Random) -> None:
    at = 2 * rng.randrange(len(messages) // 2)
    messages[at + 2 : at + 2] = [dict(message) for message in messages[at : at + 2]]


def turn_lost(messages: Rows, rng: random.Random) -> None:
    """Not the last one."""
    at = 2 * rng.randrange(len(messages) // 2 - 1)
    del messages[at : at + 2]


def last_answer_lost(messages: Rows, _: random.Random) -> None:
    del messages[-1]


def answer(**values: Any) -> Callable[[Rows, random.Random], None]:
    """Other facts of one answer."""

    def change(messages: Rows, rng: random.Random) -> None:
        rng.choice([m for m in messages if m["role"] == "assistant"]).update(values)

    return change


def models_served(messages: Rows, _: random.Random) -> None:
    """The endpoint began to call itself otherwise half-way."""
    answers = [m for m in messages if m["role"] == "assistant"]
    for at, message in enumerate(answers):
        message["served_model"] = "m-2026-05-01" if at < len(answers) // 2 else "m-2026-06-01"


def cut(folder: Path, rng: random.Random) -> None:
    """A file that was not written to its end."""
    part = rng.choice(parts(folder))
    os.truncate(part, rng.randrange(1, part.stat().st_size))


def emptied(folder: Path, rng: random.Random) -> None:
    rng.choice(parts(folder)).write_bytes(b"")


def removed(folder: Path, rng: random.Random) -> None:
    rng.choice(parts(folder)).unlink()


def bit_flipped(folder: Path, rng: random.Random) -> None:
    """One bit of the data pages; the file stays a whole Parquet file."""
    part = rng.choice(parts(folder))
    data = bytearray(part.read_bytes())
    with pq.ParquetFile(part) as file:
        columns = map(file.metadata.row_group(0).column, range(file.metadata.num_columns))
        column = rng.choice(
            [c for c in columns if c.total_compressed_size > 200]
        )  # of less, the end may lie in a page's header
    first = (
        column.data_page_offset
        if column.dictionary_page_offset is None
        else column.dictionary_page_offset
    )
    data[first + column.total_compressed_size - 9] ^= 1 << rng.randrange(8)
    part.write_bytes(bytes(data))


def of_older_version(folder: Path, rng: random.Random) -> None:
    """A stale shard: whole, and of another schema version."""
    part = rng.choice(parts(folder))
    with pq.ParquetFile(part) as file:
        table = file.read()
    pq.write_table(
        table.replace_schema_metadata({**(table.schema.metadata or {}), VERSION_KEY: b"0"}), part
    )


def of_table(other: str) -> Spoil:
    """A part of another table of the same lake under the name of this one's."""

    def spoil(folder: Path, rng: random.Random) -> None:
        part = rng.choice(parts(folder))
        lake = next(place.parent for place in part.parents if place.parent.name == "lake")
        part.write_bytes(parts(lake / other)[0].read_bytes())

    return spoil


def of_another_run(folder: Path, rng: random.Random) -> None:
    """A part of another run's folder of the same table."""
    table = next(place for place in folder.parents if place.parent.name == "lake")
    stray = rng.choice([part for part in parts(table) if not part.is_relative_to(folder)])
    (folder / "part-stray.parquet").write_bytes(stray.read_bytes())
