"""Reading the warehouse. Readers open a published file, read-only, and never wait for a writer.

An open connection goes on reading the publication it was opened on; a new connection sees the newest.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.errors import ParleyError, UsageError
from warehouse import sql_files

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FILE_NAME = "warehouse.duckdb"
SITE = "site"
"""Folder in the home where `parley site` writes unless it is told another; reports of a night link to it."""
_OPENINGS = 10
Rows = tuple[tuple[str, ...], list[tuple[Any, ...]]]
"""Column names, and rows in the order of the result."""


def warehouse_path(home: Path) -> Path:
    """Where a home's warehouse lies once something was published."""
    return home / FILE_NAME


def site_index(home: Path) -> Path | None:
    """The first page of the site that was written beside a home's warehouse; None where none was."""
    index = home / SITE / "index.html"
    return index if index.is_file() else None


def identity(path: Path) -> tuple[int, int, int] | None:
    """Inode, size in bytes and time of change in nanoseconds: they differ between two publications. None without a file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def connect(home: Path) -> "DuckDBPyConnection":
    """Open the published warehouse of a home, read-only.

    SQL run on the connection cannot write the warehouse, reach a file or the network, load an extension, or lift these limits.

    The file is attached to a database of the connection's own: DuckDB would otherwise hand all connections of a process the file
    that the first of them opened, even after a publication replaced it. It opens a file by name more than once, so one that was
    replaced meanwhile is opened again.

    Raises:
        UsageError: nothing has been published yet; says which command does it.
        ParleyError: the file is damaged; says how to make it anew. Or it is replaced faster than it can be opened.
    """
    import duckdb

    path = warehouse_path(home)
    for _ in range(_OPENINGS):
        found = identity(path)
        if found is None:
            raise UsageError(
                f"there is no warehouse at {path}. `parley run` and `parley publish` make it; `parley demo` shows both"
            )
        try:
            connection = _attached(path)
        except duckdb.Error as error:
            if identity(path) == found:
                raise ParleyError(
                    f"{path} cannot be opened: {error}. `parley publish --rebuild` makes it anew from the lake"
                ) from error
            continue
        if identity(path) == found:
            return connection
        connection.close()
    raise ParleyError(
        f"{path} was replaced {_OPENINGS} times while it was opened. Ask again when other publications have ended"
    )


def _attached(path: Path) -> "DuckDBPyConnection":
    import duckdb

    connection = duckdb.connect(":memory:")
    try:
        connection.execute(f"attach {quoted(str(path))} as warehouse (read_only)")
        connection.execute("use warehouse")
        connection.execute("set enable_progress_bar = false")
        connection.execute("set enable_external_access = false")
        connection.execute("set lock_configuration = true")
    except duckdb.Error:
        connection.close()
        raise
    return connection


def query(home: Path, sql: str, parameters: Mapping[str, object] | None = None) -> Rows:
    """Run one read-only statement.

    Args:
        parameters: values of `$name` in the statement.

    Returns:
        Column names and rows.

    Raises:
        UsageError: no warehouse, or a statement that DuckDB refuses; says why.
    """
    import duckdb

    connection = connect(home)
    try:
        cursor = connection.execute(sql, dict(parameters) if parameters else None)
        columns = tuple(column[0] for column in cursor.description or ())
        return columns, cursor.fetchall()
    except duckdb.Error as error:
        raise UsageError(f"SQL on {warehouse_path(home)}: {error}") from error
    finally:
        connection.close()


def named_query(home: Path, name: str, **parameters: object) -> Rows:
    """Run a statement of `warehouse/sql/queries`.

    Raises:
        UnknownName: no such statement; lists them.
        UsageError: no warehouse, or parameters that the statement does not take.
    """
    return query(home, sql_files.load("queries", name).statement, parameters)


def shown_runs(home: Path) -> dict[str, str]:
    """Runs that the published warehouse shows as finished: run_id -> `finished_at` of the record it holds.

    The warehouse does not show a record of the lake with another time yet. Empty where the warehouse is missing or unreadable.
    """
    try:
        return dict(
            query(home, "select run_id, finished_at from runs where status = 'finished'")[1]
        )
    except ParleyError:
        return {}


def quoted(text: str) -> str:
    """Text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
