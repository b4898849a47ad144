"""Compares two runs or models that a person names, on the published warehouse."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import UnknownName, UsageError
from warehouse.comparison.decided import Decisions
from warehouse.comparison.events import with_pair_events
from warehouse.comparison.judge_moves import JudgeMoves
from warehouse.comparison.pairs import Directions, Row, compare_scores, comparison_rows
from warehouse.comparison.runs import ComparedRun, most_alike, read_runs, runs_named
from warehouse.connect import connect, warehouse_path

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ASKED = "asked"
Pair = tuple[ComparedRun, ComparedRun]
"""(new, old)."""


def compare_named(
    home: Path, old: str, new: str, directions: Directions, judged: Collection[str] = ()
) -> list[Row]:
    """Compare what two names have in common: rows as in the table `comparisons`, new minus old.

    Two runs are compared as they are, if they are of one dataset version. Of two models, every setting that both have a run of is
    compared: the new one's latest run, and the old one's run that differs least from it.

    Args:
        old: a run's id or its beginning; a model's label, the label's last part, or a family, each also with `@REVISION`.
        new: likewise.
        directions: which way of each metric is better.
        judged: metrics that read judgements.

    Raises:
        UnknownName: nothing published is called so.
        UsageError: a run is withheld, or the two have nothing in common.
    """
    import duckdb

    connection = connect(home)
    try:
        runs, moves, decisions = (
            read_runs(connection),
            JudgeMoves(connection),
            Decisions(connection),
        )
        pairs = _pairs(old, new, *(_named(connection, runs, name) for name in (old, new)))
        rows = [
            row
            for run, other in pairs
            for row in comparison_rows(
                run,
                other,
                ASKED,
                compare_scores(connection, run.run_id, other.run_id),
                directions,
                moves.between(run, other),
                decisions.between(run, other),
            )
        ]
        return with_pair_events(rows, judged, "q_value")
    except duckdb.CatalogException as error:
        raise UsageError(
            f"{warehouse_path(home)} was published by an older Parley: {str(error).splitlines()[0]}. Type `parley publish` first"
        ) from error
    finally:
        connection.close()


def pairs_named(home: Path, text: str) -> list[tuple[str, str]]:
    """Return (old run, new run) of each pair that `OLD:NEW` or `OLD..NEW` means; the names are those of `compare_named`.

    Names hold colons: of all places to part the text, the one counts at which both sides are names.

    Raises:
        UnknownName, UsageError: as `compare_named`. Also where the text has no such place, or several.
    """
    connection = connect(home)
    try:
        runs = read_runs(connection)
        parted = [
            (text[:at], text[at + len(mark) :])
            for mark in ("..", ":")
            for at in range(len(text))
            if text.startswith(mark, at)
        ]
        parted = [(old, new) for old, new in parted if old and new]
        known = [
            (old, new) for old, new in parted if runs_named(runs, old) and runs_named(runs, new)
        ]
        if not parted or len(known) > 1:
            raise UsageError(
                f"{text!r} does not name two runs or models. Part them by two dots: OLD..NEW"
            )
        old, new = (known or parted)[0]
        pairs = _pairs(old, new, *(_named(connection, runs, name) for name in (old, new)))
        return [(other.run_id, run.run_id) for run, other in pairs]
    finally:
        connection.close()


def _named(
    connection: "DuckDBPyConnection", runs: Sequence[ComparedRun], name: str
) -> tuple[ComparedRun, ...]:
    found = runs_named(runs, name)
    if found:
        return found
    unshown = connection.execute(
        "select run_id, status, withheld_reason from runs where status <> 'finished' and (starts_with(run_id, ?) or model = ?)"
        " order by finished_at desc",
        [name, name],
    ).fetchall()
    if unshown:
        run_id, status, reason = unshown[0]
        raise UsageError(
            f"run {run_id[:12]} is {status} and has no published scores: {reason or 'it did not come to its end'}"
        )
    known = sorted({run.model for run in runs})
    raise UnknownName(
        "run or model",
        name,
        known[:20],
        "`parley list runs` shows the ids of runs, which will do as well",
    )


def _pairs(
    old: str, new: str, before: Sequence[ComparedRun], after: Sequence[ComparedRun]
) -> list[Pair]:
    if len(before) == len(after) == 1:
        return [_two_runs(before[0], after[0])]
    found: list[Pair] = []
    latest = {
        run.condition: run for run in sorted(after, key=lambda run: (run.finished_at, run.run_id))
    }
    for run in sorted(
        latest.values(), key=lambda run: (run.setting, run.dataset_version, run.condition)
    ):
        other = most_alike(
            run, (one for one in before if one.condition == run.condition and one is not run)
        )
        if other is not None:
            found.append((run, other))
    if not found:
        have = [
            ", ".join(sorted({f"{run.setting} on {run.dataset_version}" for run in runs}))
            for runs in (before, after)
        ]
        raise UsageError(
            f"{old!r} and {new!r} have no setting with equal data and options in common: {have[0]}; and {have[1]}"
        )
    return found


def _two_runs(before: ComparedRun, after: ComparedRun) -> Pair:
    if before.run_id == after.run_id:
        raise UsageError(
            f"both names mean run {before.run_id[:12]} of {before.model}. Name two runs: `parley list runs`"
        )
    data = [f"{run.benchmark} on {run.dataset_version}" for run in (before, after)]
    if data[0] != data[1]:
        raise UsageError(
            f"runs {before.run_id[:12]} and {after.run_id[:12]} share no problems: {data[0]}; {data[1]}"
        )
    return after, before
