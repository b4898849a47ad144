"""Marts: tables of results, each made by the SELECT of one SQL file, and updated run by run.

A mart's SELECT has a column `run_id`, and reads only the runs of the temporary table
`changed_runs(run_id)`. A benchmark's file NAME_groups.sql makes no table of its own. It assigns the
scores of `changed_scores` to groups; the table `results` has their means, intervals and counts. A
`WideTable` is a view that shows the metrics of a group side by side.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any

from schemas.errors import ConfigError, ParleyError
from warehouse import sql_files
from warehouse.connect import batches, identifier
from warehouse.descriptions import comment, comments, mart_notes, mart_texts
from warehouse.publication.migrate import DDL
from warehouse.wide_tables import WideTable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SHARED = ("pool_turn", "pool_dialog", "pool_dataset", "forgery", "results", "leaderboard", "costs")
"""Marts of all benchmarks, each after those that it reads."""
RESULTS = "results"
_GROUPS = "_groups"

_CHANGED = (
    """
    create or replace temporary view changed_episode_rows as
    select * from episode_rows where episode_id in
        (select episode_id from run_episodes where run_id in (select run_id from changed_runs))
    """,
    """
    create or replace temporary table changed_attempts as
    select contained.run_id, chosen.*
    from run_episodes as contained
    inner join changed_runs on contained.run_id = changed_runs.run_id
    inner join chosen_among('changed_episode_rows') as chosen
        on contained.episode_id = chosen.episode_id
    """,
    """
    create or replace temporary view changed_episodes as
    select chosen.run_id, played.* exclude (run_id)
    from changed_attempts as chosen
    inner join changed_episode_rows as played
        on chosen.episode_id = played.episode_id
        and chosen.paid_by_run_id = played.run_id
        and chosen.part = played.part
        and chosen.attempt = played.attempt
    """,
    """
    create or replace temporary table changed_dialogs as
    select
        played.run_id,
        played.episode_id,
        any_value(problems.level) as level,
        any_value(dialogs.labels) as labels
    from changed_episodes as played
    left join dialogs
        on played.benchmark = dialogs.benchmark
        and played.dataset_version = dialogs.dataset_version
        and played.dialog_id = dialogs.dialog_id
        and played.row_digest = dialogs.row_digest
    left join problems
        on played.benchmark = problems.benchmark
        and played.dataset_version = problems.dataset_version
        and played.problem_id = problems.problem_id
        and coalesce(nullif(dialogs.problem_digest, ''), played.row_digest) = problems.row_digest
    group by all
    """,
)
"""Temporary tables and views with one row for each episode of each changed run.

`changed_attempts` names the attempt that counts (run_id, episode_id, paid_by_run_id, part,
attempt). `changed_episodes` has the columns of that attempt. `changed_dialogs` has the level of the
task and the labels of the dialog. The views `turns` and `episodes` would scan all episodes instead.
"""
_CHANGED_SCORES = """
    create or replace temporary view changed_scores as
    select
        measured.run_id,
        runs.benchmark,
        runs.setting,
        measured.episode_id,
        measured.turn,
        measured.instruction_id,
        {
            'metric': measured.metric,
            'metric_version': measured.metric_version,
            'episode_id': measured.episode_id,
            'problem_id': measured.problem_id,
            'value': measured.value,
            'unscored_reason': measured.unscored_reason
        } as score
    from score_rows as measured
    inner join changed_runs on measured.run_id = changed_runs.run_id
    inner join runs on measured.run_id = runs.run_id
"""
"""Scores of the changed runs that a groups file reads: all of them, or those of its benchmark."""

SCORES_AT_ONCE = 500_000
"""Maximum number of rows of `score_rows` that one statement reads to fill the marts."""


@dataclass(frozen=True)
class Mart:
    """A table, the groups of one benchmark in `results`, or a view."""

    name: str
    kind: str
    """Use of the statement: it makes a `table` or a `view`, or assigns scores to `groups`."""
    statement: str
    source: "MartSource | None" = field(default=None, compare=False)
    """SQL file or wide table that defines the mart. None if a warehouse file alone has it."""

    @property
    def benchmark(self) -> str | None:
        """Return the benchmark whose scores are grouped, or None for all benchmarks."""
        return None if self.name == RESULTS else self.name.removesuffix(_GROUPS)

    @property
    def table(self) -> str:
        """Return the name of the table or view with the mart's rows."""
        return RESULTS if self.kind == "groups" else self.name

    @property
    def texts(self) -> Mapping[str, str]:
        """Return column -> description. Empty for a mart without a `source`."""
        if self.source is None or isinstance(self.source, WideTable):
            return {} if self.source is None else self.source.texts
        return mart_texts(self.source)

    @property
    def tests(self) -> Mapping[str, Any]:
        """Return the tests of the mart's rows: kind -> arguments.

        See `warehouse/publication/validate.py`.
        """
        if self.source is None or isinstance(self.source, WideTable):
            return (
                {}
                if self.source is None
                else {"unique": self.source.key, "relations": {"run_id": "runs.run_id"}}
            )
        return mart_notes(self.source).get("tests", {})


@dataclass(frozen=True)
class MartPlan:
    """Marts that the warehouse file has after this publication."""

    marts: tuple[Mart, ...]
    n_unchanged: int
    """Number of leading marts whose SQL is unchanged. Later ones are made again, since they may
    read a changed one."""

    @property
    def complete(self) -> bool:
        """Return whether no mart has to be made again."""
        return self.n_unchanged == len(self.marts)


MartSource = Traversable | WideTable


def collect_marts(sources: Sequence[MartSource]) -> tuple[Mart, ...]:
    """Return the shared marts, followed by the other ones in their order.

    Raises:
        ConfigError: a mart's name is invalid or already used.
    """
    marts: list[Mart] = []
    for source in (*(sql_files.path("marts", name) for name in SHARED), *sources):
        mart = _mart(source)
        if not re.fullmatch(r"[a-z][a-z0-9_]*", mart.name):
            raise ConfigError(
                f"mart {source.name!r}: a mart's name starts with a lower-case letter and "
                "has only lower-case letters, digits and `_`"
            )
        if mart.name in DDL or mart.name in {m.name for m in marts}:
            raise ConfigError(
                f"mart {source.name!r}: the warehouse already has a table {mart.name!r}. "
                "Rename the file"
            )
        marts.append(mart)
    return tuple(marts)


def _mart(source: MartSource) -> Mart:
    if isinstance(source, WideTable):
        return Mart(source.name, "view", source.statement, source)
    file = sql_files.read_sql(source)
    places_scores = file.name == RESULTS or file.name.endswith(_GROUPS)
    return Mart(file.name, "groups" if places_scores else "table", file.statement, source)


def plan_marts(connection: "DuckDBPyConnection", current: Sequence[Mart]) -> MartPlan:
    """Compare marts with those in the file.

    Marts that only the file has are last in the plan, and are updated as well.
    """
    rows = connection.execute(
        "select mart, kind, statement from _marts order by position"
    ).fetchall()
    stored = [Mart(name, kind, statement) for name, kind, statement in rows]
    names = {mart.name for mart in current}
    marts = (*current, *(mart for mart in stored if mart.name not in names))
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
    """Bring all marts up to date. Commits the open transaction and opens a new one.

    DuckDB 2.0 reads a table as empty that the same transaction created without rows and then
    filled.

    Args:
        touched: runs whose rows are made again, or removed if they are not published.
        published: all runs whose results the warehouse shows.

    Raises:
        ParleyError: a mart's SQL fails. The message names the mart.
    """
    set_runs(connection, "touched_runs", touched)
    own = sorted(
        mart.benchmark
        for mart in plan.marts
        if mart.kind == "groups" and mart.benchmark is not None
    )
    connection.execute(
        "create or replace temporary table own_groups as select unnest(?::varchar[]) as benchmark",
        [own],
    )
    unchanged, remade = plan.marts[: plan.n_unchanged], plan.marts[plan.n_unchanged :]
    for mart in unchanged:
        if mart.kind == "table" or mart.name == RESULTS:
            connection.execute(
                f"delete from {identifier(mart.table)} where run_id in (select run_id from "
                "touched_runs)"
            )
    set_changed(connection, ())
    # A column keeps its comment unless the mart has a new one.
    earlier = comments(connection) if remade else {}
    for mart in remade:
        _define(connection, mart)
    comment(
        connection,
        {
            mart.table: (mart.statement, {**earlier.get(mart.table, {}), **mart.texts})
            for mart in remade
            if mart.kind != "groups" or mart.name == RESULTS
        },
    )
    connection.execute("commit")
    connection.execute("begin")
    for marts, made_for in ((unchanged, set(touched) & set(published)), (remade, published)):
        for runs in _batches(connection, made_for if marts else ()):
            _insert(connection, marts, runs)
    connection.execute("delete from _marts")
    connection.executemany(
        "insert into _marts (mart, kind, position, statement) values (?, ?, ?, ?)",
        [
            [mart.name, mart.kind, position, mart.statement]
            for position, mart in enumerate(plan.marts)
        ],
    )


def _define(connection: "DuckDBPyConnection", mart: Mart) -> None:
    """Create the mart's table without rows, or its view."""
    if mart.kind == "groups" and mart.name != RESULTS:
        connection.execute(
            f"delete from {RESULTS} where benchmark = ? and axis <> 'all'", [mart.benchmark]
        )
        return
    if mart.kind == "view":
        statement = f"create or replace view {identifier(mart.name)} as\n{mart.statement}"
    else:
        statement = (
            f"create or replace table {identifier(mart.table)} as\n{_selection(connection, mart)}"
        )
    _run(connection, mart, statement)


def _batches(connection: "DuckDBPyConnection", runs: Collection[str]) -> Iterator[list[str]]:
    """Yield batches of runs whose scores fit into memory, since a rebuild takes every run."""
    if runs:
        counted = "select run_id, count(*) from score_rows group by run_id"
        sizes = dict(connection.execute(counted).fetchall())
        yield from batches(sorted(runs), lambda run_id: sizes.get(run_id, 0), SCORES_AT_ONCE)


def _insert(connection: "DuckDBPyConnection", marts: Sequence[Mart], runs: Collection[str]) -> None:
    set_changed(connection, runs)
    rows = connection.execute(
        "select distinct benchmark from runs semi join changed_runs using (run_id)"
    ).fetchall()
    present = {None, *(benchmark for (benchmark,) in rows)}
    for mart in marts:
        if mart.kind == "table" or (mart.kind == "groups" and mart.benchmark in present):
            _run(
                connection,
                mart,
                f"insert into {identifier(mart.table)} by name\n{_selection(connection, mart)}",
            )


def _selection(connection: "DuckDBPyConnection", mart: Mart) -> str:
    """Return the query of the mart's rows with `task_share` of their runs.

    `task_share` is NULL for a run with all tasks.
    """
    if mart.kind == "groups":
        of_benchmark = (
            "" if mart.benchmark is None else f" where runs.benchmark = '{mart.benchmark}'"
        )
        connection.execute(_CHANGED_SCORES + of_benchmark)
        _run(
            connection, mart, f"create or replace temporary view placed_scores as\n{mart.statement}"
        )
        return "select * from results_of('placed_scores') order by all"
    return (
        f"select mart.*, runs.task_share from (\n{mart.statement}\n) as mart inner join runs "
        "on mart.run_id = runs.run_id"
        " where mart.run_id in (select run_id from changed_runs)\norder by all"
    )


def store_scales(connection: "DuckDBPyConnection", shares: Mapping[str, bool]) -> set[str]:
    """Store which metrics are not shares, and return the runs whose intervals this changes.

    Args:
        shares: metric -> whether it is a share in [0, 1]. Other metrics stay as they are stored.
    """
    rows = connection.execute("select metric from _scales").fetchall()
    stored = {metric for (metric,) in rows}
    changed = sorted(name for name, is_share in shares.items() if is_share == (name in stored))
    if not changed:
        return set()
    connection.execute(
        "delete from _scales where metric in (select unnest(?::varchar[]))", [changed]
    )
    connection.execute(
        "insert into _scales (metric) select unnest(?::varchar[])",
        [[name for name in changed if not shares[name]]],
    )
    found = connection.execute(
        "select distinct run_id from score_rows where metric in (select unnest(?::varchar[]))",
        [changed],
    )
    return {run_id for (run_id,) in found.fetchall()}


def set_runs(connection: "DuckDBPyConnection", table: str, run_ids: Collection[str]) -> None:
    """Create a temporary table of run ids."""
    connection.execute(f"create or replace temporary table {table} (run_id varchar not null)")
    if run_ids:
        connection.execute(
            f"insert into {table} (run_id) select unnest(?::varchar[])", [sorted(run_ids)]
        )


def set_changed(connection: "DuckDBPyConnection", run_ids: Collection[str]) -> None:
    """Create the temporary tables that marts read, for these runs."""
    set_runs(connection, "changed_runs", run_ids)
    for statement in _CHANGED:
        connection.execute(statement)


def _run(connection: "DuckDBPyConnection", mart: Mart, statement: str) -> None:
    import duckdb

    try:
        connection.execute(statement)
    except duckdb.Error as error:
        raise ParleyError(
            f"mart {mart.name!r}: {error}. Nothing was published. Fix its SQL file"
        ) from error
