"""Comparison of two runs or models that a person names, on the published warehouse."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import UnknownName, UsageError
from warehouse.comparison.events import with_pair_events
from warehouse.comparison.pairs import Comparisons, Directions, Row
from warehouse.comparison.runs import ComparedRun, nearest_run, read_runs, runs_named
from warehouse.comparison.tables import BASELINE
from warehouse.connect import connect, warehouse_path

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

REQUESTED = "asked"
Pair = tuple[ComparedRun, ComparedRun]
"""Two runs to compare: (new, old)."""


def compare_named(
    home: Path, old: str, new: str, directions: Directions, judged: Collection[str] = ()
) -> list[Row]:
    """Compare two named runs or models: rows as in the table `comparisons`, new minus old.

    Two runs are compared directly if they have one dataset version. Two models are compared on
    every setting that both have a run of: the latest run of the new model with the most similar run
    of the old one.

    Args:
        old: a run's id or the start of it; a model's label, the last part of the label, or a
            family, each also with `@REVISION`.
        new: name of the same kinds.
        directions: metric -> which direction is better.
        judged: metrics that read judgements.

    Raises:
        UnknownName: nothing published has this name.
        UsageError: a run is withheld, or the two have nothing in common.
    """
    import duckdb

    try:
        with connect(home) as connection:
            runs, comparisons = read_runs(connection), Comparisons(connection, directions)
            pairs = _pairs(old, new, *(_named(connection, runs, name) for name in (old, new)))
            rows = [row for run, other in pairs for row in comparisons.rows(run, other, REQUESTED)]
        return with_pair_events(rows, judged, "q_value")
    except duckdb.CatalogException as error:
        raise UsageError(
            f"{warehouse_path(home)} was published by an older version of Parley: "
            f"{str(error).splitlines()[0]}. Run `parley publish` first"
        ) from error


def missing_baselines(home: Path, run_ids: Collection[str]) -> list[tuple[str, list[str], bool]]:
    """Find the baselines that runs name, and that some of these runs were not compared with.

    Returns:
        Baseline, titles of its runs without a comparison, and whether any published run has its
        name.
    """
    with connect(home) as connection:
        runs = read_runs(connection)
        compared = {
            run_id
            for (run_id,) in connection.execute(
                "select distinct run_id from comparisons where against = ?", [BASELINE]
            ).fetchall()
        }
    titles: dict[str, list[str]] = {}
    named: dict[str, bool] = {}
    for run in runs:
        if run.run_id not in run_ids or run.baseline is None or run.run_id in compared:
            continue
        baselines = runs_named(runs, run.baseline)
        if run not in baselines:
            titles.setdefault(run.baseline, []).append(f"{run.setting} · {run.model}")
            named[run.baseline] = bool(baselines)
    return [(baseline, titles[baseline], named[baseline]) for baseline in titles]


def pairs_named(home: Path, text: str) -> list[tuple[str, str]]:
    """Return (old run, new run) of each pair that `OLD:NEW` or `OLD..NEW` stands for.

    The names are those of `compare_named`. Since names contain colons, the text is split where both
    sides are names.

    Raises:
        UnknownName: nothing published has this name.
        UsageError: a run is withheld, the two have nothing in common, or the text can be split
            nowhere or at several positions.
    """
    with connect(home) as connection:
        runs = read_runs(connection)
        splits = [
            (text[:at], text[at + len(mark) :])
            for mark in ("..", ":")
            for at in range(len(text))
            if text.startswith(mark, at)
        ]
        splits = [(old, new) for old, new in splits if old and new]
        named = [
            (old, new) for old, new in splits if runs_named(runs, old) and runs_named(runs, new)
        ]
        if not splits or len(named) > 1:
            raise UsageError(
                f"{text!r} does not name two runs or models. Separate them by two dots: OLD..NEW"
            )
        old, new = (named or splits)[0]
        pairs = _pairs(old, new, *(_named(connection, runs, name) for name in (old, new)))
        return [(other.run_id, run.run_id) for run, other in pairs]


def _named(
    connection: "DuckDBPyConnection", runs: Sequence[ComparedRun], name: str
) -> tuple[ComparedRun, ...]:
    named = runs_named(runs, name)
    if named:
        return named
    unpublished = connection.execute(
        "select run_id, status, withheld_reason from runs where status <> 'finished' and "
        "(starts_with(run_id, ?) or model = ?)"
        " order by finished_at desc",
        [name, name],
    ).fetchall()
    if unpublished:
        run_id, status, reason = unpublished[0]
        raise UsageError(
            f"run {run_id[:12]} is {status} and has no published scores: "
            f"{reason or 'it has not finished'}"
        )
    models = sorted({run.model for run in runs})
    raise UnknownName(
        "run or model",
        name,
        models[:20],
        "`parley list runs` shows the ids of runs, which also work",
    )


def _pairs(
    old: str, new: str, before: Sequence[ComparedRun], after: Sequence[ComparedRun]
) -> list[Pair]:
    if len(before) == len(after) == 1:
        return [_two_runs(before[0], after[0])]
    pairs: list[Pair] = []
    latest = {
        run.condition: run for run in sorted(after, key=lambda run: (run.finished_at, run.run_id))
    }
    for run in sorted(
        latest.values(), key=lambda run: (run.setting, run.dataset_version, run.condition)
    ):
        other = nearest_run(
            run,
            (
                candidate
                for candidate in before
                if candidate.condition == run.condition and candidate is not run
            ),
        )
        if other is not None:
            pairs.append((run, other))
    if not pairs:
        have = [
            ", ".join(sorted({f"{run.setting} on {run.dataset_version}" for run in runs}))
            for runs in (before, after)
        ]
        options = next(
            (
                f". Options of {run.setting} differ: {differing}. Set them by --option, or name two"
                " runs by their ids"
                for run in after
                for other in before
                if (run.setting, run.dataset_version) == (other.setting, other.dataset_version)
                if (differing := other.differing_options(run))
            ),
            "",
        )
        raise UsageError(
            f"{old!r} and {new!r} have no setting with equal data and options in common. "
            f"{old!r} has {have[0]}; {new!r} has {have[1]}{options}"
        )
    return pairs


def _two_runs(before: ComparedRun, after: ComparedRun) -> Pair:
    if before.run_id == after.run_id:
        raise UsageError(
            f"both names stand for run {before.run_id[:12]} of {before.model}. Name two "
            "different runs, listed by `parley list runs`"
        )
    data = [f"{run.benchmark} on {run.dataset_version}" for run in (before, after)]
    if data[0] != data[1]:
        raise UsageError(
            f"runs {before.run_id[:12]} and {after.run_id[:12]} have no problems in common: "
            f"{data[0]}; {data[1]}"
        )
    return after, before
