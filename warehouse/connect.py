"""Read access to the warehouse. Readers open a published file and never wait for a writer.

An open connection keeps reading the publication that it opened. A new connection reads the newest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.errors import ParleyError, UsageError
from warehouse import sql_files

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FILE_NAME = "warehouse.duckdb"
SITE = "site"
"""Folder in the home where `parley site` writes by default. Reports of a night link to it."""
_OPENINGS = 10
Rows = tuple[tuple[str, ...], list[tuple[Any, ...]]]
"""Column names, and rows in the order of the result."""


def warehouse_path(home: Path) -> Path:
    """Return the path of a home's warehouse. The file exists after the first publication."""
    return home / FILE_NAME


def site_index(home: Path) -> Path | None:
    """Return the first page of the site in the home's default folder, or None without a site."""
    index = home / SITE / "index.html"
    return index if index.is_file() else None


def identity(path: Path) -> tuple[int, int, int] | None:
    """Return inode, size in bytes and modification time in nanoseconds; None without a file.

    Two publications differ in at least one of these.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def connect(home: Path) -> "DuckDBPyConnection":
    """Open the published warehouse of a home, read-only.

    SQL on the connection cannot write to the warehouse, read or write files, use the network, load
    an extension, or remove these limits.

    The file is attached to an in-memory database of the connection. Otherwise DuckDB would give all
    connections of a process the file that the first of them opened, even after a publication
    replaced it. DuckDB opens a file by name more than once, so a file that was replaced in between
    is opened again.

    Raises:
        UsageError: nothing is published. The message names the commands that publish.
        ParleyError: the file is damaged, or it is replaced faster than it can be opened. The
            message gives the remedy.
    """
    import duckdb

    path = warehouse_path(home)
    for _ in range(_OPENINGS):
        opened = identity(path)
        if opened is None:
            raise UsageError(
                f"there is no warehouse at {path}. `parley run` and `parley publish` make "
                "it. `parley demo` runs both"
            )
        try:
            connection = _attached(path)
        except duckdb.Error as error:
            if identity(path) == opened:
                raise ParleyError(
                    f"{path} cannot be opened: {error}. `parley publish --rebuild` rebuilds "
                    "it from the lake"
                ) from error
            continue
        if identity(path) == opened:
            return connection
        connection.close()
    raise ParleyError(
        f"{path} was replaced {_OPENINGS} times while it was opened. Retry after the other "
        "publications have finished"
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
        UsageError: there is no warehouse, or DuckDB rejects the statement.
    """
    import duckdb

    with _latest(home).cursor() as cursor:
        try:
            cursor.execute("use warehouse")
            cursor.execute(sql, dict(parameters) if parameters else None)
            columns = tuple(column[0] for column in cursor.description or ())
            return columns, cursor.fetchall()
        except duckdb.Error as error:
            raise UsageError(f"SQL on {warehouse_path(home)}: {error}") from error


_open: dict[Path, tuple[tuple[int, int, int] | None, "DuckDBPyConnection"]] = {}
"""Path -> identity and connection of the publication that this process queried last."""


def _latest(home: Path) -> "DuckDBPyConnection":
    """Return a connection to the newest publication, opened before if possible.

    Opening and closing takes 20 ms of processor time, and a finished run has six queries.
    """
    path = warehouse_path(home)
    newest = identity(path)
    opened, connection = _open.get(path, (None, None))
    if connection is None or opened != newest:
        connection = connect(home)
        _open.clear()
        _open[path] = newest, connection
    return connection


def named_query(home: Path, name: str, **parameters: object) -> Rows:
    """Run a statement of `warehouse/sql/queries`.

    Raises:
        UnknownName: there is no such statement. The message lists them.
        UsageError: there is no warehouse, or the statement does not take these parameters.
    """
    return query(home, sql_files.load("queries", name).statement, parameters)


def batches(
    names: Iterable[str], size_of: Callable[[str], int], most: int, most_names: int | None = None
) -> Iterator[list[str]]:
    """Yield the names in batches of bounded size. A larger name has a batch of its own.

    Args:
        size_of: function that returns the size of a name's rows.
        most: maximum size of a batch.
        most_names: maximum number of names in a batch.
    """
    batch: list[str] = []
    total = 0
    for name in names:
        size = size_of(name)
        if batch and (total + size > most or len(batch) == most_names):
            yield batch
            batch, total = [], 0
        batch.append(name)
        total += size
    if batch:
        yield batch


def fetch_rows(cursor: "DuckDBPyConnection") -> list[dict[str, Any]]:
    """Return the rows of an executed statement as column -> value."""
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def shown_runs(home: Path) -> dict[str, str]:
    """Return run_id -> `finished_at` of the runs that the published warehouse shows as finished.

    A record of the lake with another `finished_at` is not published yet. Empty if the warehouse is
    missing or unreadable.
    """
    try:
        return dict(
            query(home, "select run_id, finished_at from runs where status = 'finished'")[1]
        )
    except ParleyError:
        return {}


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
