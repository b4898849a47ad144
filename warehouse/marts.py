"""Marts: tables of results, each the SELECT of one SQL file, kept up to date run by run.

A mart's SELECT has `run_id` among its columns and reads only the runs of the temporary table `changed_runs(run_id)`. Which
attempt at each of their episodes counts stands in `changed_attempts` and `changed_episodes`: the views `turns` and `episodes`
would look at all episodes for it.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from schemas.errors import ConfigError, ParleyError
from warehouse import sql_files
from warehouse.connect import identifier
from warehouse.publication.migrate import DDL
from warehouse.sql_files import SqlFile

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SHARED = ("pool_turn", "pool_dialog", "pool_dataset", "forgery", "leaderboard", "costs")
"""Marts of all benchmarks, in an order in which each finds those it reads."""

_CHANGED = (
    "create or replace temporary view changed_episode_rows as select * from episode_rows where episode_id in"
    " (select episode_id from run_episodes where run_id in (select run_id from changed_runs))",
    "create or replace temporary table changed_attempts as select contained.run_id, chosen.* from run_episodes as contained"
    " inner join changed_runs on contained.run_id = changed_runs.run_id"
    " inner join chosen_among('changed_episode_rows') as chosen on contained.episode_id = chosen.episode_id",
    "create or replace temporary view changed_episodes as select chosen.run_id, played.* exclude (run_id)"
    " from changed_attempts as chosen inner join changed_episode_rows as played on chosen.episode_id = played.episode_id"
    " and chosen.paid_by_run_id = played.run_id and chosen.part = played.part and chosen.attempt = played.attempt",
)
"""One row for each changed run and episode that it contains: `changed_attempts` says which attempt counts (run_id, episode_id,
paid_by_run_id, part, attempt), `changed_episodes` has that attempt's columns."""

SCORES_AT_ONCE = 500_000
"""Rows of `score_rows` from which marts are made in one statement."""


@dataclass(frozen=True)
class MartPlan:
    """The marts of a file after this publication."""

    marts: tuple[SqlFile, ...]
    n_unchanged: int
    """Number of marts, from the first on, whose SQL is unchanged. Later ones are made anew: they may read one that changed."""

    @property
    def complete(self) -> bool:
        """Whether no mart is to be made anew."""
        return self.n_unchanged == len(self.marts)


def collect_marts(given: Sequence[Traversable]) -> tuple[SqlFile, ...]:
    """The shared marts, then the given ones in their order.

    Raises:
        ConfigError: a mart whose name is not a plain one or is taken.
    """
    marts = list(sql_files.load_all("marts", SHARED))
    for source in given:
        mart = sql_files.read_sql(source)
        if not re.fullmatch(r"[a-z][a-z0-9_]*", mart.name):
            raise ConfigError(
                f"mart {source.name!r}: a mart's name is made of small letters, digits and `_`"
            )
        if mart.name in DDL or mart.name in {m.name for m in marts}:
            raise ConfigError(
                f"mart {source.name!r}: the warehouse has a table {mart.name!r} already. Give the file another name"
            )
        marts.append(mart)
    return tuple(marts)


def plan_marts(connection: "DuckDBPyConnection", given: Sequence[SqlFile]) -> MartPlan:
    """Compare the given marts with those in the file. Marts that only the file knows stay, at the end, and stay up to date."""
    rows = connection.execute("select mart, statement from _marts order by position").fetchall()
    stored = [SqlFile(name, statement) for name, statement in rows]
    names = {mart.name for mart in given}
    marts = (*given, *(mart for mart in stored if mart.name not in names))
    unchanged = 0
    while unchanged < len(marts) and marts[unchanged] in stored:
        unchanged += 1
    return MartPlan(marts, unchanged)


def refresh_marts(
    connection: "DuckDBPyConnection",
    plan: MartPlan,
    touched: Collection[str],
    published: Collection[str],
) -> None:
    """Bring all marts up to date. Commits the open transaction and leaves a new one open.

    DuckDB 2.0 was seen to read a table as empty that one transaction had made without rows and then filled.

    Args:
        touched: runs whose rows are to be made anew (or removed, where not published).
        published: all runs whose results the warehouse shows.

    Raises:
        ParleyError: a mart's SQL fails; names it.
    """
    set_runs(connection, "touched_runs", touched)
    kept, remade = plan.marts[: plan.n_unchanged], plan.marts[plan.n_unchanged :]
    for mart in kept:
        connection.execute(
            f"delete from {identifier(mart.name)} where run_id in (select run_id from touched_runs)"
        )
    _set_changed(connection, ())
    for mart in remade:
        _run(
            connection,
            mart,
            f"create or replace table {identifier(mart.name)} as\n{_selection(mart)}",
        )
    connection.execute("commit")
    connection.execute("begin")
    for marts, made_for in ((kept, set(touched) & set(published)), (remade, published)):
        for runs in _groups(connection, made_for if marts else ()):
            _insert(connection, marts, runs)
    connection.execute("delete from _marts")
    connection.executemany(
        "insert into _marts (mart, position, statement) values (?, ?, ?)",
        [[mart.name, position, mart.statement] for position, mart in enumerate(plan.marts)],
    )


def _groups(connection: "DuckDBPyConnection", runs: Collection[str]) -> Iterator[list[str]]:
    """Runs in groups whose scores fit into memory: a rebuild makes the marts of every run."""
    sizes = (
        dict(
            connection.execute("select run_id, count(*) from score_rows group by run_id").fetchall()
        )
        if runs
        else {}
    )
    group: list[str] = []
    n_scores = 0
    for run_id in sorted(runs):
        if group and n_scores + sizes.get(run_id, 0) > SCORES_AT_ONCE:
            yield group
            group, n_scores = [], 0
        group.append(run_id)
        n_scores += sizes.get(run_id, 0)
    if group:
        yield group


def _insert(
    connection: "DuckDBPyConnection", marts: Sequence[SqlFile], runs: Collection[str]
) -> None:
    _set_changed(connection, runs)
    for mart in marts:
        _run(connection, mart, f"insert into {identifier(mart.name)} by name\n{_selection(mart)}")


def _selection(mart: SqlFile) -> str:
    """The mart's rows, each with the share of the tasks that its run has: NULL where it has all."""
    return (
        f"select mart.*, runs.task_share from (\n{mart.statement}\n) as mart inner join runs on mart.run_id = runs.run_id"
        " where mart.run_id in (select run_id from changed_runs)\norder by all"
    )


def set_runs(connection: "DuckDBPyConnection", table: str, run_ids: Collection[str]) -> None:
    """Make a temporary table of some runs."""
    connection.execute(f"create or replace temporary table {table} (run_id varchar not null)")
    if run_ids:
        connection.execute(
            f"insert into {table} (run_id) select unnest(?::varchar[])", [sorted(run_ids)]
        )


def _set_changed(connection: "DuckDBPyConnection", run_ids: Collection[str]) -> None:
    set_runs(connection, "changed_runs", run_ids)
    for statement in _CHANGED:
        connection.execute(statement)


def _run(connection: "DuckDBPyConnection", mart: SqlFile, statement: str) -> None:
    import duckdb

    try:
        connection.execute(statement)
    except duckdb.Error as error:
        raise ParleyError(
            f"mart {mart.name!r}: {error}. Nothing was published; mend its SQL file"
        ) from error
