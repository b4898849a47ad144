"""Tables of the warehouse file, and their version.

The file holds nothing that the lake does not: one of another version is not altered but made anew.
"""

import hashlib
from typing import TYPE_CHECKING

from schemas.lake.tables import LOADED
from warehouse import sql_files

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FORMAT = 1
"""Raise it when rows are loaded otherwise than before without a change of SQL or of a table's schema version."""

DDL = (
    *(
        "runs",
        "run_episodes",
        "models",
        "nights",
        "problems",
        "dialogs",
        "quarantine",
        "episode_rows",
        "turn_rows",
    ),
    *(
        "test_verdict_rows",
        "forgery_audit",
        "judge_verdicts",
        "judge_drift_answers",
        "score_rows",
        "quality_checks",
    ),
    *(
        "ratings",
        "agreement",
        "contexts",
        "checkpoints",
        "served_hours",
        "serving",
        "stage_times",
        "failed_runs",
    ),
    *("comparison_rules", "decisions", "stopped_runs", "comparisons", "history", "releases"),
    *("_loaded_parts", "_marts", "_warehouse_version"),
    *("stable_mean", "is_fault", "pooled", "tokens_usd"),
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
"""Statements of sql/ddl in an order in which each finds what it names."""


def current_version() -> str:
    """Version of the files that this Parley writes: of its DDL, its staging SQL and the lake's table schemas."""
    digest = hashlib.sha256()
    ddl, staging = (
        sql_files.load_all("ddl", DDL),
        sql_files.load_all("staging", sql_files.names("staging")),
    )
    for statement in (*ddl, *staging):
        digest.update(f"{statement.name}\n{statement.statement}\n".encode())
    for table in LOADED.values():
        digest.update(f"{table.name} {table.version}\n".encode())
    return f"{FORMAT}-{digest.hexdigest()[:12]}"


def create_tables(connection: "DuckDBPyConnection") -> None:
    """Make all tables, macros and views in an empty file."""
    for statement in sql_files.load_all("ddl", DDL):
        connection.execute(statement.statement)
    connection.execute("insert into _warehouse_version (version) values (?)", [current_version()])


def found_version(connection: "DuckDBPyConnection") -> str | None:
    """Version of an open file; None where it is no warehouse of Parley's."""
    import duckdb

    try:
        rows = connection.execute("select version from _warehouse_version").fetchall()
    except duckdb.CatalogException:
        return None
    return str(rows[0][0]) if rows else None
