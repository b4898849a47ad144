"""Makes the tables `comparisons` and `history` of all published runs. Only pairs with a changed run are compared anew."""

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from warehouse.comparison.decided import Decisions
from warehouse.comparison.events import with_night_events
from warehouse.comparison.history import history_rows, read_results
from warehouse.comparison.judge_moves import JudgeMoves
from warehouse.comparison.pairs import (
    Directions,
    MetricPair,
    Row,
    compare_scores,
    comparison_rows,
    pair_of,
)
from warehouse.comparison.runs import ComparedRun, in_order, most_alike, read_runs, runs_named
from warehouse.connect import identifier

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
    """Make both tables anew.

    Args:
        touched: runs whose scores may have changed. The numbers of other pairs are kept as they stand.
        directions: which way of each metric is better.
        judged: metrics that read judgements.
    """
    runs, moves, decisions = read_runs(connection), JudgeMoves(connection), Decisions(connection)
    series = _series(runs)
    known = _known_pairs(connection, touched)
    rows: list[Row] = []
    for run, other, against in _wanted(runs, series):
        pairs = known.get((run.run_id, other.run_id)) or compare_scores(
            connection, run.run_id, other.run_id
        )
        between = moves.between(run, other), decisions.between(run, other)
        rows += comparison_rows(run, other, against, pairs, directions, *between)
    results = read_results(connection)
    history = [row for one in series for row in history_rows(one, results, directions, moves)]
    rows, history = with_night_events(rows, history, judged)
    _replace(connection, "comparisons", rows)
    _replace(connection, "history", history)


def _series(runs: Sequence[ComparedRun]) -> tuple[Series, ...]:
    found: dict[tuple[str, str], list[ComparedRun]] = {}
    for run in runs:
        found.setdefault((run.family, run.series), []).append(run)
    return tuple(in_order(members) for _, members in sorted(found.items()))


def _wanted(
    runs: Sequence[ComparedRun], series: Sequence[Series]
) -> Iterator[tuple[ComparedRun, ComparedRun, str]]:
    """(run, the run it is compared with, why)."""
    for checkpoints in series:
        for before, now in itertools.pairwise(checkpoints):
            for run in now:
                other = most_alike(run, before)
                if other is not None:
                    yield run, other, PREDECESSOR
    for run in runs:
        if run.baseline is not None:
            alike = [
                one for one in runs_named(runs, run.baseline) if one.condition == run.condition
            ]
            other = None if run in alike else most_alike(run, alike)
            if other is not None:
                yield run, other, BASELINE


def _known_pairs(
    connection: "DuckDBPyConnection", touched: Collection[str]
) -> dict[tuple[str, str], tuple[MetricPair, ...]]:
    cursor = connection.execute("select * from comparisons order by run_id, other_run_id, metric")
    columns = [column[0] for column in cursor.description or ()]
    found: dict[tuple[str, str], dict[str, MetricPair]] = {}
    for values in cursor.fetchall():
        row = dict(zip(columns, values, strict=True))
        if row["run_id"] not in touched and row["other_run_id"] not in touched:
            found.setdefault((row["run_id"], row["other_run_id"]), {})[row["metric"]] = pair_of(row)
    return {pair: tuple(of_metric.values()) for pair, of_metric in found.items()}


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
