"""Descriptions of tables, views and their columns, kept in the warehouse as comments. `parley sql ".describe TABLE"` shows them.

A column's description is the first that is found of: the mart's own (a YAML file beside its SQL), that of `sql/tables.yml`, the
docstring of the field that the column holds, and that of all columns of its name (`shared` in `sql/tables.yml`).
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from schemas.episode import Step
from schemas.errors import UnknownName
from schemas.field_texts import field_texts
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
        own: descriptions that come before all others.
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
    """Return the descriptions of a mart's columns: those in the YAML file beside its SQL come before the shared ones."""
    return texts(source.name.removesuffix(".sql"), mart_notes(source).get("columns"))


def mart_notes(source: Traversable) -> dict[str, Any]:
    """Return the YAML file beside a mart's SQL: `columns` and `tests`; empty where there is no such file."""
    path = Path(str(source)).with_suffix(".yml")
    return _yaml(path) if path.is_file() else {}


def _yaml(path: Traversable) -> dict[str, Any]:
    import yaml

    return yaml.load(
        path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )


def grain(name: str, statement: str) -> str:
    """Return what one row of a table is: of `sql/tables.yml`, else the comment that begins its SQL."""
    stated = _written()["tables"].get(name, {}).get("grain")
    comment = re.match(r"(?:--.*\n)+", statement)
    return stated or _one_line(
        re.sub(r"^--", "", comment[0], flags=re.MULTILINE) if comment else ""
    )


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


@contextmanager
def described(
    connection: "DuckDBPyConnection", name: str, statement: str, columns: Mapping[str, str]
) -> Iterator[None]:
    """Comment on a table or view that the block makes or replaces. Columns without a description keep an earlier comment."""
    earlier = dict(connection.execute(_COMMENTS, {"name": name}).fetchall())
    yield
    known = {**{column: text for column, text in earlier.items() if text}, **columns}
    present = [column for column, _ in connection.execute(_COMMENTS, {"name": name}).fetchall()]
    if present and (about := grain(name, statement)):
        is_view = connection.execute(
            "select 1 from duckdb_views() where view_name = ? and not internal", [name]
        ).fetchall()
        connection.execute(
            f"comment on {'view' if is_view else 'table'} {identifier(name)} is {quoted(about)}"
        )
    for column in present:
        if column in known:
            connection.execute(
                f"comment on column {identifier(name)}.{identifier(column)} is {quoted(known[column])}"
            )


_COMMENTS = (
    "select column_name, comment from duckdb_columns() where table_name = $name and not internal"
    " and schema_name = 'main' order by column_index"
)


def describing(home: Path, name: str) -> str:
    """Return the query of a table's or view's columns in the published warehouse: name, type, description.

    Raises:
        UnknownName: no such table; lists them.
        UsageError: no warehouse.
    """
    tables = "select distinct table_name from duckdb_columns() where not internal order by all"
    names = (str(table) for (table,) in query(home, tables)[1])
    known = [name for name in names if not name.startswith("_")]
    if name not in known:
        raise UnknownName("table", name, known)
    return (
        "select column_name as column, data_type as type, comment as description from duckdb_columns()"
        f" where table_name = {quoted(name)} and not internal order by column_index"
    )
