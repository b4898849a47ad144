"""Validation of a new warehouse file before it replaces the old one.

The YAML file next to a mart's SQL states tests of its rows. Every publication runs them.

tests:
  unique: [run_id, metric]                  # no two rows are equal in these columns
  within: {n: [0, null], share: [0, 1]}     # lowest and highest value, both included; NULL passes
  accepted: {role: [subject, judge]}        # values of a column
  holds: [n_passed <= n]                    # conditions that are true or NULL in every row
  relations: {run_id: runs.run_id}          # each value occurs in a column of another table
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from schemas.errors import ParleyError
from schemas.lake.tables import LOADED
from warehouse.connect import identifier, quoted
from warehouse.marts import RESULTS, SHARED, Mart, set_runs
from warehouse.publication.load import targets

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
            faults += mart_faults(
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
    benchmarks = connection.execute(
        "select distinct benchmark from runs semi join new_runs using (run_id)"
    ).fetchall()
    for mart in marts:
        is_of_all = mart.name in SHARED
        if not is_of_all and not any(mart.name.startswith(f"{name}_") for (name,) in benchmarks):
            continue
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
        of_benchmark = "true" if is_of_all else "starts_with(?, benchmark || '_')"
        rows = connection.execute(
            f"select distinct run_id from {source} where run_id in (select run_id from "
            f"runs_without) and {role_condition}"
            f" and {of_benchmark} order by run_id",
            [] if is_of_all else [mart.name],
        ).fetchall()
        if rows:
            yield (
                f"mart {mart.name} has no rows of {len(rows)} published runs, such as {rows[0][0]}"
            )


def _scalar(
    connection: "DuckDBPyConnection", sql: str, parameters: list[object] | None = None
) -> int:
    return int(connection.execute(sql, parameters or []).fetchall()[0][0])


def mart_faults(
    connection: "DuckDBPyConnection", table: str, tests: Mapping[str, Any], where: str = "true"
) -> Iterator[str]:
    """Yield a sentence for each test that rows of a mart fail.

    Args:
        tests: kind of test -> its arguments.
        where: condition on the rows to test.
    """
    source = f"{identifier(table)} where {where}"
    conditions = dict(_conditions(tests))
    if conditions:
        counted = ", ".join(
            f"count(*) filter (not ({condition}))" for condition in conditions.values()
        )
        [counts] = connection.execute(f"select {counted} from {source}").fetchall()
        for (test, _), n in zip(conditions.items(), counts, strict=True):
            if n:
                yield f"{table}: {test} fails in {n} rows"
    if key := tests.get("unique"):
        columns = ", ".join(map(identifier, key))
        repeated = connection.execute(
            f"select {columns} from {source} group by all having count(*) > 1 limit 1"
        ).fetchall()
        if repeated:
            yield f"{table}: unique {', '.join(key)} fails, first at {repeated[0]}"


def _conditions(tests: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for column, (low, high) in tests.get("within", {}).items():
        bounds = [
            f"{identifier(column)} {sign} {bound}"
            for sign, bound in ((">=", low), ("<=", high))
            if bound is not None
        ]
        yield f"{column} within [{low}, {high}]", " and ".join(bounds)
    for column, values in tests.get("accepted", {}).items():
        yield (
            f"{column} accepted {values}",
            f"{identifier(column)} in ({', '.join(map(quoted, values))})",
        )
    for condition in tests.get("holds", ()):
        yield f"holds {condition}", condition
    for column, other in tests.get("relations", {}).items():
        table, _, name = other.partition(".")
        yield (
            f"{column} in {other}",
            f"{identifier(column)} in (select {identifier(name)} from {identifier(table)})",
        )
