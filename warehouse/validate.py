"""What must hold before a new warehouse file replaces the old one."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from schemas.errors import ParleyError
from schemas.tables import TABLES
from warehouse.connect import identifier
from warehouse.load import targets
from warehouse.marts import SHARED
from warehouse.sql_files import SqlFile

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LEADERBOARD_COUNTS = """
select l.run_id, l.n_leaderboard, s.n_scores
from (select run_id, sum(n + n_unscored + n_not_applicable)::bigint as n_leaderboard from leaderboard group by run_id) as l
full join (select run_id, count(*) as n_scores from scores group by run_id) as s on l.run_id = s.run_id
where l.n_leaderboard is distinct from s.n_scores
"""
_RUNS_WITHOUT = {
    "scores": "has no scores, so that no mart shows it",
    "run_episodes": "names no episodes",
}
_LOST_EPISODES = """
select c.run_id, count(*) from run_episodes as c
anti join episode_rows as e on c.episode_id = e.episode_id
group by c.run_id order by c.run_id
"""


def validate(connection: "DuckDBPyConnection", marts: Iterable[SqlFile]) -> tuple[str, ...]:
    """Check the new file's counts.

    Returns:
        Warnings: runs of which the lake itself lacks something.

    Raises:
        ParleyError: the file does not hold what was loaded, or a mart lacks a published run. A defect: nothing is published.
    """
    faults = [*_row_counts(connection), *_leaderboard_counts(connection), *_missing_in_marts(connection, marts)]
    if faults:
        raise ParleyError(
            f"the new warehouse is not consistent: {'; '.join(faults)}. Nothing was published; `parley publish --rebuild` makes"
            " it from the lake alone, and where that fails too this is a defect of Parley's"
        )
    return tuple(_gaps_of_the_lake(connection))


def _row_counts(connection: "DuckDBPyConnection") -> Iterable[str]:
    for table in TABLES:
        target = targets(table)[0]
        loaded = _one(connection, "select coalesce(sum(n_rows), 0)::bigint from _loaded_parts where table_name = ?", [table])
        held = _one(connection, f"select count(*) from {identifier(target)}")
        if held > loaded or (held == 0) != (loaded == 0) or (table == "episodes" and held != loaded):
            yield f"{target} holds {held} rows, {loaded} were loaded"


def _leaderboard_counts(connection: "DuckDBPyConnection") -> Iterable[str]:
    for run_id, n_leaderboard, n_scores in connection.execute(_LEADERBOARD_COUNTS).fetchall():
        yield f"run {run_id} has {n_scores or 0} scores, its leaderboard rows count {n_leaderboard or 0}"


def _missing_in_marts(connection: "DuckDBPyConnection", marts: Iterable[SqlFile]) -> Iterable[str]:
    for mart in marts:
        source = "(select run_id, benchmark from turns where role = 'assistant')" if mart.name == "costs" else "scores"
        of_benchmark = "true" if mart.name in SHARED else "starts_with(?, benchmark || '_')"
        rows = connection.execute(
            f"select distinct run_id from {source} where {of_benchmark} and run_id not in"
            f" (select run_id from {identifier(mart.name)}) order by run_id",
            [] if mart.name in SHARED else [mart.name],
        ).fetchall()
        if rows:
            yield f"mart {mart.name} has no rows of {len(rows)} published runs, the first being {rows[0][0]}"


def _gaps_of_the_lake(connection: "DuckDBPyConnection") -> Iterable[str]:
    for table, consequence in _RUNS_WITHOUT.items():
        rows = connection.execute(
            f"select run_id from runs where status = 'finished' and run_id not in (select run_id from {table}) order by run_id"
        ).fetchall()
        for (run_id,) in rows:
            yield f"run {run_id} {consequence}"
    for run_id, n in connection.execute(_LOST_EPISODES).fetchall():
        yield f"run {run_id} names {n} episodes that the lake does not hold: their turns are missing"


def _one(connection: "DuckDBPyConnection", sql: str, parameters: list[object] | None = None) -> int:
    return int(connection.execute(sql, parameters or []).fetchall()[0][0])
