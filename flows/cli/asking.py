"""Saved queries of `parley sql`, and its output as CSV and Parquet."""

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
"""Folder in Parley's home for saved queries (`NAME.sql`)."""


def statement_of(home: Home, query: str) -> str:
    """Return the SQL statement of a query argument: SQL, `@name`, or `.describe TABLE`.

    `@name` is a saved query. A file `queries/name.sql` in the home takes precedence over a bundled
    query of that name.

    Raises:
        UnknownName: no saved query has this name; the error lists all names.
        UsageError: the query begins with a dot, but is not `.describe TABLE`.
    """
    if query.startswith("."):
        from warehouse.descriptions import describing

        command, _, table = query.partition(" ")
        if command != ".describe" or not table.strip():
            raise UsageError(
                f"{query!r} is not a dot command: use `.describe TABLE` for the columns of a table"
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
        remedy = f"To add one, write {home.path / FOLDER}/NAME.sql"
        raise UnknownName("saved query", name, sorted({*own, *bundled}), remedy)
    return sql_files.load("saved", name).statement


def print_csv(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Print comma-separated values. On a terminal, control characters are removed."""
    text = csv_text(columns, rows)
    print(plain_text(text) if sys.stdout.isatty() else text, end="")


def csv_text(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """Return CSV text with a header line. NULL and empty text both become empty cells."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue()


def write_parquet(home: Home, statement: str, out: Path) -> int:
    """Write a query's rows as Parquet with DuckDB's types, and return their number.

    An older file at `out` is replaced atomically.

    Raises:
        UsageError: there is no warehouse, DuckDB refuses the statement, or `out` is not writable.
    """
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tasks.storage.new_folder import replace_file

    connection = connect(home.path)
    try:
        relation = connection.sql(statement)
        if relation is None:
            raise UsageError("the statement returns no rows to write. Pass a SELECT")
        table = relation.to_arrow_table()
    except duckdb.Error as error:
        raise UsageError(f"SQL on {warehouse_path(home.path)}: {error}") from error
    finally:
        connection.close()
    data = pa.BufferOutputStream()
    pq.write_table(table, data)
    replace_file(out, data.getvalue().to_pybytes())
    return table.num_rows
