"""The tables `comparisons` and `history` of all published runs.

Only pairs with a changed run are compared again.
"""

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from schemas.grouping import grouped
from warehouse.comparison.events import with_night_events
from warehouse.comparison.history import history_rows, read_results
from warehouse.comparison.paired import Paired
from warehouse.comparison.pairs import Comparisons, Directions, Row, pair_of
from warehouse.comparison.runs import ComparedRun, in_order, nearest_run, read_runs, runs_named
from warehouse.connect import fetch_rows, identifier

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PREDECESSOR, BASELINE = "predecessor", "baseline"
Series = Sequence[Sequence[ComparedRun]]
"""Runs of one series, checkpoint by checkpoint."""


def refresh_comparisons(
    connection: "DuckDBPyConnection",
    touched: Collection[str],
    directions: Directions,
    judged: Collection[str] = (),
) -> None:
    """Replace the rows of both tables.

    Args:
        touched: runs whose scores may have changed. The numbers of other pairs are reused.
        directions: metric -> which direction is better.
        judged: metrics that read judgements.
    """
    runs, comparisons = read_runs(connection), Comparisons(connection, directions)
    series = _series(runs)
    stored_pairs = _stored_pairs(connection, touched)
    rows: list[Row] = []
    for run, other, against in _wanted(runs, series):
        pairs = stored_pairs.get((run.run_id, other.run_id))
        rows += comparisons.rows(run, other, against, pairs)
    results = read_results(connection)
    history = [
        row
        for checkpoints in series
        for row in history_rows(checkpoints, results, directions, comparisons.drift_answers)
    ]
    rows, history = with_night_events(rows, history, judged)
    _replace(connection, "comparisons", rows)
    _replace(connection, "history", history)


def _series(runs: Sequence[ComparedRun]) -> tuple[Series, ...]:
    members = grouped(((run.family, run.series), run) for run in runs)
    return tuple(in_order(runs_of_one) for _, runs_of_one in sorted(members.items()))


def _wanted(
    runs: Sequence[ComparedRun], series: Sequence[Series]
) -> Iterator[tuple[ComparedRun, ComparedRun, str]]:
    """Yield (run, run to compare it with, reason)."""
    for checkpoints in series:
        for before, now in itertools.pairwise(checkpoints):
            for run in now:
                other = nearest_run(run, before)
                if other is not None:
                    yield run, other, PREDECESSOR
    for run in runs:
        if run.baseline is not None:
            comparable = [
                candidate
                for candidate in runs_named(runs, run.baseline)
                if candidate.condition == run.condition
            ]
            other = None if run in comparable else nearest_run(run, comparable)
            if other is not None:
                yield run, other, BASELINE


def _stored_pairs(
    connection: "DuckDBPyConnection", touched: Collection[str]
) -> dict[tuple[str, str], dict[str, Paired]]:
    pairs: dict[tuple[str, str], dict[str, Paired]] = {}
    statement = "select * from comparisons order by run_id, other_run_id, metric"
    for row in fetch_rows(connection.execute(statement)):
        if row["run_id"] not in touched and row["other_run_id"] not in touched:
            pairs.setdefault((row["run_id"], row["other_run_id"]), {})[row["metric"]] = pair_of(row)
    return pairs


def _replace(connection: "DuckDBPyConnection", table: str, rows: Sequence[Row]) -> None:
    connection.execute(f"delete from {identifier(table)}")
    if not rows:
        return
    import pyarrow as pa

    connection.register(
        "compared", pa.table({name: [row[name] for row in rows] for name in rows[0]})
    )
    try:
        connection.execute(f"insert into {identifier(table)} by name select * from compared")
    finally:
        connection.unregister("compared")
