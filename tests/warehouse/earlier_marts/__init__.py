"""The SQL that made the wide tables before they became views over `results`: an oracle for their
columns, rows and values. Since then, counts and ratings have no Wilson interval (`is_share`).
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from warehouse.intervals import register_intervals
from warehouse.marts import set_changed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Row = tuple[object, ...]
EARLIER = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.sql"))}


def differing_tables(home: Path, scratch: Path) -> dict[str, object]:
    """Return wide table -> first difference between its view and what its earlier SQL makes of the
    same warehouse.
    """
    import duckdb

    found: dict[str, object] = {}
    copy = Path(shutil.copy(home / "warehouse.duckdb", scratch / "earlier.duckdb"))
    with duckdb.connect(str(copy)) as connection:
        register_intervals(connection)
        runs = connection.execute("select run_id from runs where status = 'finished'").fetchall()
        set_changed(connection, {run for (run,) in runs})
        views = {
            name
            for (name,) in connection.execute(
                "select view_name from duckdb_views() where not internal"
            ).fetchall()
        }
        for name in views & EARLIER.keys():
            connection.execute(
                "create temporary table earlier as select mart.*, runs.task_share from "
                f"({EARLIER[name].read_text()}) as mart"
                " inner join runs on mart.run_id = runs.run_id"
            )
            (columns, rows), (now_columns, now_rows) = (
                _whole(connection, "earlier"),
                _whole(connection, name),
            )
            connection.execute("drop table earlier")
            if columns != now_columns:
                found[name] = [
                    pair for pair in zip(columns, now_columns, strict=False) if pair[0] != pair[1]
                ]
            elif rows != now_rows:
                found[name] = _first_difference([column for column, _ in columns], rows, now_rows)
    copy.unlink()
    return found


def _first_difference(columns: list[str], rows: list[Row], now_rows: list[Row]) -> object:
    for row, now in zip(rows, now_rows, strict=False):
        if row != now:
            return {
                column: (a, b) for column, a, b in zip(columns, row, now, strict=True) if a != b
            }
    return len(rows), len(now_rows)


def _whole(connection: "DuckDBPyConnection", name: str) -> tuple[list[tuple[str, str]], list[Row]]:
    found = connection.execute(f"select * from {name} order by all")
    return [(column[0], str(column[1])) for column in found.description or ()], found.fetchall()
