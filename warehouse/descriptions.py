"""Descriptions of tables, views and columns, stored in the warehouse as comments.

`parley sql ".describe TABLE"` shows them. A column's description is the first that exists of: the
YAML file next to the mart's SQL, `sql/tables.yml`, the docstring of the field stored in the column,
and the description of all columns with this name (`shared` in `sql/tables.yml`).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from schemas.base import field_texts
from schemas.episode import Step
from schemas.errors import UnknownName
from schemas.lake.records import RoleSampling
from schemas.lake.tables import TABLES
from schemas.night.work import RunWork
from warehouse.connect import identifier, query, quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


_MODELS: dict[str, type[BaseModel]] = {
    **{name: table.model for name, table in TABLES.items()},
    **{
        f"{name.removesuffix('s')}_rows": TABLES[name].model
        for name in ("episodes", "scores", "test_verdicts")
    },
    **dict.fromkeys(("turn_rows", "turns", "steps"), Step),
    "run_samplings": RoleSampling,
    "night_work": RunWork,
}
"""Table or view -> model whose fields its columns hold."""


@cache
def _written() -> dict[str, dict[str, Any]]:
    return _yaml(files("warehouse") / "sql" / "tables.yml")


def texts(name: str, own: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return column -> description, of all columns that a table or view of this name may have.

    Args:
        own: descriptions with priority over all others.
    """
    model = _MODELS.get(name)
    fields = (
        {}
        if model is None
        else {field: _one_line(text) for field, text in field_texts(model).items()}
    )
    return (
        _written()["shared"]
        | fields
        | _written()["tables"].get(name, {}).get("columns", {})
        | dict(own or {})
    )


def mart_texts(source: Traversable) -> dict[str, str]:
    """Return the descriptions of a mart's columns.

    Descriptions in the YAML file next to its SQL have priority over shared ones.
    """
    return texts(source.name.removesuffix(".sql"), mart_notes(source).get("columns"))


def mart_notes(source: Traversable) -> dict[str, Any]:
    """Return the YAML file next to a mart's SQL (`columns` and `tests`), or an empty dictionary."""
    path = Path(str(source)).with_suffix(".yml")
    return _yaml(path) if path.is_file() else {}


def _yaml(path: Traversable) -> dict[str, Any]:
    import yaml

    return yaml.load(
        path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )


def grain(name: str, statement: str) -> str:
    """Return the description of a table's rows.

    It comes from `sql/tables.yml`, else from the comment at the head of the table's SQL.
    """
    stated = _written()["tables"].get(name, {}).get("grain")
    comment = re.match(r"(?:--.*\n)+", statement)
    return stated or _one_line(
        re.sub(r"^--", "", comment[0], flags=re.MULTILINE) if comment else ""
    )


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def comments(connection: "DuckDBPyConnection") -> dict[str, dict[str, str]]:
    """Return table or view -> column -> its comment."""
    rows = connection.execute(
        "select table_name, column_name, comment from duckdb_columns() where not internal"
        " and schema_name = 'main' and comment is not null"
    ).fetchall()
    texts_by_table: dict[str, dict[str, str]] = {}
    for table, column, text in rows:
        texts_by_table.setdefault(table, {})[column] = text
    return texts_by_table


def comment(
    connection: "DuckDBPyConnection", tables: Mapping[str, tuple[str, Mapping[str, str]]]
) -> None:
    """Comment on tables and views, and on their columns.

    The catalog is read once for all of them, because each reading takes milliseconds.

    Args:
        connection: connection to the warehouse.
        tables: name -> SQL that made it, and descriptions of columns. Other names are ignored.
    """
    present = connection.execute(
        "select table_name, view_name is not null, list(column_name order by column_index)"
        " from duckdb_columns() c left join duckdb_views() on view_name = table_name"
        " where c.schema_name = 'main' and not c.internal and list_contains(?, table_name)"
        " group by all",
        [list(tables)],
    ).fetchall()
    statements: list[str] = []
    for name, is_view, names in present:
        statement, texts_of = tables[name]
        if about := grain(name, statement):
            kind = "view" if is_view else "table"
            statements.append(f"comment on {kind} {identifier(name)} is {quoted(about)}")
        statements += (
            f"comment on column {identifier(name)}.{identifier(column)} is"
            f" {quoted(texts_of[column])}"
            for column in names
            if column in texts_of
        )
    if statements:
        connection.execute(";".join(statements))


def describing(home: Path, name: str) -> str:
    """Return the query of the columns of a published table or view: name, type, description.

    Raises:
        UnknownName: there is no such table. The message lists them.
        UsageError: there is no warehouse.
    """
    statement = "select distinct table_name from duckdb_columns() where not internal order by all"
    names = (str(table) for (table,) in query(home, statement)[1])
    tables = [name for name in names if not name.startswith("_")]
    if name not in tables:
        raise UnknownName("table", name, tables)
    return (
        "select column_name as column, data_type as type, comment as description from "
        "duckdb_columns()"
        f" where table_name = {quoted(name)} and not internal order by column_index"
    )


_NEEDED = {"run_id", "model", "setting", "dataset_version"}
_SHARED = (
    *(
        "run_id",
        "benchmark",
        "model",
        "setting",
        "dataset_version",
        "sandbox",
        "isolated",
        "task_share",
    ),
    *("episode_options", "scoring_options", "options"),
)
"""Columns of result tables that identify a run, not a part of it."""


@dataclass(frozen=True)
class CurveTable:
    """Table with values at the positions of an axis."""

    name: str
    axis: str
    """Column of the position: `turn` or `level`. A column `axis`, if present, names the axis of the
    positions."""
    parts: tuple[str, ...]
    """Columns that divide the table into curves."""
    measures: tuple[str, ...]
    """Columns `x` with an interval in the columns `x_low` and `x_high`."""
    counts: Mapping[str, tuple[str | None, str | None]]
    """Measure -> columns of its n and n_unscored. None: the table has no such column."""


def curve_table(name: str, types: Mapping[str, str]) -> CurveTable | None:
    """Return the curves of a table with these columns and types, or None if it has none.

    A measure is a column `x` with columns `x_low` and `x_high`.
    """
    measures = [column for column in types if {f"{column}_low", f"{column}_high"} <= types.keys()]
    axis = next((column for column in ("turn", "level") if column in types), None)
    if axis is None or not measures or not types.keys() >= _NEEDED:
        return None
    parts = (
        column
        for column, kind in types.items()
        if kind == "VARCHAR" and column != axis and column not in _SHARED
    )
    return CurveTable(name, axis, tuple(parts), tuple(measures), counts_of(types, measures))


def counts_of(
    columns: Collection[str], measures: Sequence[str]
) -> dict[str, tuple[str | None, str | None]]:
    """Return measure -> columns of its n and n_unscored.

    `n_ca` belongs to `ca`, and to `ca_strict` if there is no `n_ca_strict`. `n` belongs to the one
    measure without such a column, or to all measures if none has one. A measure with neither has no
    n: another measure's n is never shown for it.
    """
    own: dict[str, str | None] = {}
    for measure in measures:
        words = measure.rstrip("_").split("_")
        names = (f"n_{'_'.join(words[:length])}" for length in range(len(words), 0, -1))
        own[measure] = next((name for name in names if name in columns), None)
    without = [measure for measure, n in own.items() if n is None]
    if "n" in columns and len(without) in (1, len(measures)):
        own |= dict.fromkeys(without, "n")
    return {
        m: (n, f"{n}_unscored" if n is not None and f"{n}_unscored" in columns else None)
        for m, n in own.items()
    }
