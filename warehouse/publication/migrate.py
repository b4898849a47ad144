"""Tables of the warehouse file, and their version.

The file holds nothing that the lake does not: one of another version is not altered but made anew.
"""

import hashlib
from functools import cache
from typing import TYPE_CHECKING

from schemas.lake.tables import LOADED, Table
from warehouse import sql_files
from warehouse.connect import identifier
from warehouse.descriptions import described, texts
from warehouse.publication.staging import ONE_ROW_PER, targets
from warehouse.sql_files import SqlFile

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

FORMAT = 1
"""Raise it when rows are loaded otherwise than before without a change of SQL or of a table's schema version."""

DDL = (
    *(target for table in LOADED for target in targets(table)),
    *("agreement", "stopped_runs", "comparisons", "history"),
    *("_loaded_parts", "_marts", "_warehouse_version"),
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
"""Tables, macros and views in an order in which each finds what it names."""
_ADDED = {
    ("runs", "withheld_reason"): ", released_because VARCHAR",
    ("decisions", "sequence"): ", is_night_wide BOOLEAN",
}
"""(Table, column of the lake) -> column after it, which a publication fills."""


@cache
def statements() -> tuple[SqlFile, ...]:
    """Return the statement of each name in `DDL`: of its file in sql/ddl, or made from the lake table's Arrow schema."""
    written = sql_files.names("ddl")
    schemas = {target: table for name, table in LOADED.items() for target in targets(name)}
    return tuple(
        sql_files.load("ddl", name)
        if name in written
        else SqlFile(name, _create_table(name, schemas[name]))
        for name in DDL
    )


def _create_table(name: str, table: Table) -> str:
    columns = [
        f"{identifier(field.name)} {_sql_type(field.type)}{'' if field.nullable else ' NOT NULL'}"
        + _ADDED.get((name, field.name), "")
        for field in table.schema
    ]
    return f"create table {name} ({', '.join(columns)})"


def _sql_type(kind: "pa.DataType") -> str:
    import pyarrow as pa

    if pa.types.is_list(kind):
        return f"{_sql_type(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return f"STRUCT({', '.join(f'{identifier(field.name)} {_sql_type(field.type)}' for field in fields)})"
    return {
        pa.string(): "VARCHAR",
        pa.int64(): "BIGINT",
        pa.float64(): "DOUBLE",
        pa.bool_(): "BOOLEAN",
    }[kind]


def current_version() -> str:
    """Return the version of the files that this Parley writes: of its DDL, its staging SQL and the lake's table schemas."""
    digest = hashlib.sha256()
    for statement in (*statements(), *sql_files.load_all("staging", sql_files.names("staging"))):
        digest.update(f"{statement.name}\n{statement.statement}\n".encode())
    digest.update(f"{sorted(ONE_ROW_PER.items())}\n".encode())
    for table in LOADED.values():
        digest.update(f"{table.name} {table.version}\n".encode())
    return f"{FORMAT}-{digest.hexdigest()[:12]}"


def create_tables(connection: "DuckDBPyConnection") -> None:
    """Make all tables, macros and views in an empty file, in one transaction: it takes half the time."""
    connection.execute("begin")
    for statement in statements():
        with described(connection, statement.name, statement.statement, texts(statement.name)):
            connection.execute(statement.statement)
    connection.execute("insert into _warehouse_version (version) values (?)", [current_version()])
    connection.execute("commit")


def found_version(connection: "DuckDBPyConnection") -> str | None:
    """Return the version of an open file; None where it is no warehouse of Parley's."""
    import duckdb

    try:
        rows = connection.execute("select version from _warehouse_version").fetchall()
    except duckdb.CatalogException:
        return None
    return str(rows[0][0]) if rows else None
