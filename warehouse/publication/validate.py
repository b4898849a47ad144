"""Validation of a new warehouse file before it replaces the old one."""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from schemas.errors import ParleyError
from schemas.lake.tables import LOADED
from warehouse import mart_tests
from warehouse.connect import identifier
from warehouse.marts import RESULTS, SHARED, Mart, set_runs
from warehouse.publication.staging import targets

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LEADERBOARD_COUNTS = """
select l.run_id, l.n_leaderboard, s.n_scores
from (select run_id, sum(n + n_unscored + n_not_applicable)::bigint as n_leaderboard
    from leaderboard where run_id in (select run_id from new_runs) group by run_id) as l
full join (select run_id, count(*) as n_scores from scores
    where run_id in (select run_id from new_runs) group by run_id) as s on l.run_id = s.run_id
where l.n_leaderboard is distinct from s.n_scores
"""


def validate(connection: "DuckDBPyConnection", marts: Iterable[Mart], new: Collection[str]) -> None:
    """Check the new file's counts.

    Args:
        new: runs whose rows in marts are new. An earlier publication checked the rows of other
            runs.

    Raises:
        ParleyError: the file lacks loaded rows, or a mart lacks a published run. This is a defect,
            and nothing is published.
    """
    set_runs(connection, "new_runs", new)
    own = [mart for mart in marts if mart.table == mart.name]
    faults = [
        *_row_counts(connection),
        *_leaderboard_counts(connection),
        *_missing_in_marts(connection, own),
    ]
    for mart in own:
        if mart.kind == "table" or mart.name == RESULTS:
            faults += mart_tests.faults(
                connection, mart.name, mart.tests, "run_id in (select run_id from new_runs)"
            )
    if faults:
        raise ParleyError(
            f"the new warehouse is not consistent: {'; '.join(faults)}. Nothing was "
            "published. Run `parley publish --rebuild`"
            " to rebuild it from the lake. If that fails, too, report a bug in Parley"
        )


def _row_counts(connection: "DuckDBPyConnection") -> Iterable[str]:
    for table in LOADED:
        target = targets(table)[0]
        loaded = _scalar(
            connection,
            "select coalesce(sum(n_rows), 0)::bigint from _loaded_parts where table_name = ?",
            [table],
        )
        held = _scalar(connection, f"select count(*) from {identifier(target)}")
        if (
            held > loaded
            or (held == 0) != (loaded == 0)
            or (table == "episodes" and held != loaded)
        ):
            yield f"{target} has {held} rows, but {loaded} were loaded"


def _leaderboard_counts(connection: "DuckDBPyConnection") -> Iterable[str]:
    for run_id, n_leaderboard, n_scores in connection.execute(_LEADERBOARD_COUNTS).fetchall():
        yield (
            f"run {run_id} has {n_scores or 0} scores, but its leaderboard rows count "
            f"{n_leaderboard or 0}"
        )


def _missing_in_marts(connection: "DuckDBPyConnection", marts: Iterable[Mart]) -> Iterable[str]:
    for mart in marts:
        connection.execute(
            "create or replace temporary table runs_without as select run_id from new_runs "
            "where run_id not in"
            f" (select run_id from {identifier(mart.name)} where run_id in (select run_id "
            "from new_runs))"
        )
        if not _scalar(connection, "select count(*) from runs_without"):
            continue
        source = {"costs": "turns", "forgery": "test_verdicts"}.get(mart.name, "scores")
        role_condition = "role = 'assistant'" if mart.name == "costs" else "true"
        of_benchmark = "true" if mart.name in SHARED else "starts_with(?, benchmark || '_')"
        rows = connection.execute(
            f"select distinct run_id from {source} where run_id in (select run_id from "
            f"runs_without) and {role_condition}"
            f" and {of_benchmark} order by run_id",
            [] if mart.name in SHARED else [mart.name],
        ).fetchall()
        if rows:
            yield (
                f"mart {mart.name} has no rows of {len(rows)} published runs, such as {rows[0][0]}"
            )


def _scalar(
    connection: "DuckDBPyConnection", sql: str, parameters: list[object] | None = None
) -> int:
    return int(connection.execute(sql, parameters or []).fetchall()[0][0])
