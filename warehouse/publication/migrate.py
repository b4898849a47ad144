"""Tables of the warehouse file, and their version.

The file has nothing that the lake does not have. So a file of another version is not altered but
rebuilt.
"""

import hashlib
from functools import cache
from typing import TYPE_CHECKING

from schemas.lake.tables import LOADED
from warehouse import sql_files
from warehouse.connect import identifier
from warehouse.descriptions import comment, texts
from warehouse.publication.load import ONE_ROW_PER, targets
from warehouse.sql_files import SqlFile

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

FORMAT = 1
"""Increase it if rows are loaded in another way without a change of SQL or of a table's schema
version."""

DDL = (
    *(target for table in LOADED for target in targets(table)),
    *("agreement", "stopped_runs", "comparisons", "history"),
    *("_loaded_parts", "_marts", "_scales", "_warehouse_version"),
    *("stable_mean", "is_fault", "label_of", "pooled", "results_of", "tokens_usd"),
    *(
        "run_roles",
        "run_samplings",
        "night_work",
        "chosen_among",
        "chosen_attempts",
        "episodes",
        "steps",
        "turns",
        "judge_drift",
        "scores",
        "test_verdicts",
    ),
)
"""Tables, macros and views, each after those that it reads."""
_ADDED = {
    ("runs", "withheld_reason"): ", released_because VARCHAR",
    ("decisions", "sequence"): ", is_night_wide BOOLEAN",
}
"""(Table, column of the lake) -> definition of the column after it, which a publication fills."""


@cache
def statements() -> tuple[SqlFile, ...]:
    """Return the statement of each name in `DDL`.

    It comes from the file in sql/ddl, or from the Arrow schema of the lake table.
    """
    written = sql_files.names("ddl")
    schemas = {target: table.schema for name, table in LOADED.items() for target in targets(name)}
    return tuple(
        sql_files.load("ddl", name)
        if name in written
        else SqlFile(name, _create_table(name, schemas[name]))
        for name in DDL
    )


def _create_table(name: str, schema: "pa.Schema") -> str:
    columns = [
        f"{identifier(field.name)} {_sql_type(field.type)}{'' if field.nullable else ' NOT NULL'}"
        + _ADDED.get((name, field.name), "")
        for field in schema
    ]
    return f"create table {name} ({', '.join(columns)})"


def _sql_type(kind: "pa.DataType") -> str:
    import pyarrow as pa

    if pa.types.is_list(kind):
        return f"{_sql_type(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        columns = (f"{identifier(field.name)} {_sql_type(field.type)}" for field in fields)
        return f"STRUCT({', '.join(columns)})"
    return {
        pa.string(): "VARCHAR",
        pa.int64(): "BIGINT",
        pa.float64(): "DOUBLE",
        pa.bool_(): "BOOLEAN",
    }[kind]


def current_version() -> str:
    """Return the version of the files that this version of Parley writes.

    It is a digest of the DDL, the staging SQL and the schemas of the lake's tables.
    """
    digest = hashlib.sha256()
    staging = (sql_files.load("staging", name) for name in sql_files.names("staging"))
    for statement in (*statements(), *staging):
        digest.update(f"{statement.name}\n{statement.statement}\n".encode())
    digest.update(f"{sorted(ONE_ROW_PER.items())}\n".encode())
    for table in LOADED.values():
        digest.update(f"{table.name} {table.version}\n".encode())
    return f"{FORMAT}-{digest.hexdigest()[:12]}"


def create_tables(connection: "DuckDBPyConnection") -> None:
    """Create all tables, macros and views in an empty file.

    One transaction takes half as long as a commit for each description.
    """
    connection.execute("begin")
    for statement in statements():
        connection.execute(statement.statement)
    comment(connection, {made.name: (made.statement, texts(made.name)) for made in statements()})
    connection.execute("insert into _warehouse_version (version) values (?)", [current_version()])
    connection.execute("commit")


def stored_version(connection: "DuckDBPyConnection") -> str | None:
    """Return the version of an open file, or None if it is not a warehouse of Parley's."""
    import duckdb

    try:
        rows = connection.execute("select version from _warehouse_version").fetchall()
    except duckdb.CatalogException:
        return None
    return str(rows[0][0]) if rows else None
