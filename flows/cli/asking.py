"""What `parley sql` does besides printing a table: queries by name, and files for other tools."""

import csv
import io
import sys
from pathlib import Path
from typing import Any

from schemas.errors import UnknownName, UsageError
from schemas.outside.display import plain_text
from tasks.storage.home import Home
from warehouse import sql_files
from warehouse.connect import connect, warehouse_path

FOLDER = "queries"
"""Folder in the home with a user's own queries."""


def statement_of(home: Home, query: str) -> str:
    """Return the statement itself, or that of `@name` (`queries/name.sql` of the home, else a bundled one) or `.describe TABLE`.

    Raises:
        UnknownName: lists all names.
        UsageError: another dot command.
    """
    if query.startswith("."):
        from warehouse.descriptions import describing

        command, _, table = query.partition(" ")
        if command != ".describe" or not table.strip():
            raise UsageError(
                f"{query!r} is no dot command: type `.describe TABLE` for the columns of a table"
            )
        return describing(home.path, table.strip())
    if not query.startswith("@"):
        return query
    own = {path.stem: path for path in sorted((home.path / FOLDER).glob("*.sql"))}
    name = query[1:]
    if name in own:
        return own[name].read_text(encoding="utf-8", errors="replace")
    bundled = sql_files.names("saved")
    if name not in bundled:
        remedy = f"A file {home.path / FOLDER}/NAME.sql adds one"
        raise UnknownName("saved query", name, sorted({*own, *bundled}), remedy)
    return sql_files.load("saved", name).statement


def print_csv(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Print comma-separated values: as they are into a file or a pipe, without control characters on a terminal."""
    text = csv_text(columns, rows)
    print(plain_text(text) if sys.stdout.isatty() else text, end="")


def csv_text(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A line for each row after one with the names. NULL is an empty cell, as is an empty text: Parquet tells them apart."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue()


def write_parquet(home: Home, statement: str, out: Path) -> int:
    """Write a query's rows as Parquet, with DuckDB's own types; returns how many. An older file is replaced whole.

    Raises:
        UsageError: no warehouse, a statement that DuckDB refuses, or a file that cannot be written.
    """
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tasks.storage.replaced_file import replace_file

    connection = connect(home.path)
    try:
        relation = connection.sql(statement)
        if relation is None:
            raise UsageError("this statement has no rows to write")
        table = relation.to_arrow_table()
    except duckdb.Error as error:
        raise UsageError(f"SQL on {warehouse_path(home.path)}: {error}") from error
    finally:
        connection.close()
    data = pa.BufferOutputStream()
    pq.write_table(table, data)
    replace_file(out, data.getvalue().to_pybytes())
    return table.num_rows
