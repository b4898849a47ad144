"""Withholding of finished runs that cannot be published as they are in the lake, with the reason.

Other runs of the night are published. Each publication checks a withheld run again, until its files
are fixed or made again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.content_id import text_digest
from schemas.lake.records import results_digest
from warehouse import sql_files
from warehouse.lake import Partition, broken_seal
from warehouse.marts import set_runs
from warehouse.publication.load import Damage

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


RULES = (
    *("rows_present", "episodes_exist", "run_of_episodes", "members_only", "audited_passes"),
    *("record_counts", "checks_passed"),
)
_LOOK_AGAIN = -1
"""Modification time that no part has, so that the next publication reads the record again."""
_MAX_REASON = 1500


@dataclass(frozen=True)
class Withheld:
    """A run that this publication withheld, and the reason."""

    run_id: str
    reason: str


def withhold(
    connection: "DuckDBPyConnection", faults: Mapping[str, Sequence[str]]
) -> tuple[Withheld, ...]:
    """Mark runs as withheld. The caller removes their rows in other tables.

    Args:
        faults: run_id -> its faults.
    """
    withheld = tuple(
        Withheld(run_id, "; ".join(reasons)[:_MAX_REASON])
        for run_id, reasons in sorted(faults.items())
        if reasons
    )
    for withheld_run in withheld:
        connection.execute(
            (
                "update runs set status = 'withheld', withheld_reason = ?, released_because = "
                "null where run_id = ?"
            ),
            [f"found at publication: {withheld_run.reason}", withheld_run.run_id],
        )
        connection.execute(
            (
                "update _loaded_parts set mtime_ns = ? where table_name = 'runs' and "
                "ends_with(folder, ?)"
            ),
            [_LOOK_AGAIN, f"/run={withheld_run.run_id}"],
        )
    return withheld


def changed_since_checked(lake: Path, records: Iterable[Partition]) -> dict[str, list[str]]:
    """Return the faults of runs whose files changed after their quality checks, by run.

    Args:
        records: partitions in `runs` of finished runs.
    """
    faults = {record.last_key: broken_seal(lake, record) for record in records}
    return {run_id: [fault] for run_id, fault in faults.items() if fault}


def unsound(
    connection: "DuckDBPyConnection", judged: Collection[str], damaged: Iterable[Damage]
) -> dict[str, list[str]]:
    """Return the faults of published runs as they are now loaded, by run.

    Args:
        judged: runs with any change.
        damaged: partitions that could not be loaded.
    """
    faults: dict[str, list[str]] = {}
    for damage in damaged:
        for run_id in _runs_hurt(connection, damage.partition):
            faults.setdefault(run_id, []).append(damage.reason)
    set_runs(connection, "judged_runs", judged)
    for rule in sql_files.load_all("soundness", RULES):
        for run_id, fault in connection.execute(rule.statement).fetchall():
            faults.setdefault(run_id, []).append(fault)
    for run_id, spec_json in connection.execute(
        "select run_id, spec_json from runs semi join judged_runs using (run_id)"
    ).fetchall():
        if text_digest(spec_json) != run_id:
            faults.setdefault(run_id, []).append(
                "record_of_run: its specification belongs to another run"
            )
    return faults


def _runs_hurt(connection: "DuckDBPyConnection", partition: Partition) -> list[str]:
    """Return the published runs whose results depend on a damaged partition.

    Partitions of `episodes` yield no run: runs share them, and the rule `episodes_exist` finds the
    runs that lack episodes.
    """
    keys = partition.keys
    if partition.table in ("dialogs", "problems"):
        sql, values = (
            "benchmark = ? and dataset_version = ?",
            [keys["benchmark"], keys["dataset_version"]],
        )
    elif "run_id" in keys and partition.table != "episodes":
        sql, values = "run_id = ?", [keys["run_id"]]
    else:
        return []
    rows = connection.execute(
        f"select run_id from runs where status = 'finished' and {sql} order by run_id", values
    ).fetchall()
    return [run_id for (run_id,) in rows]


def apply_releases(connection: "DuckDBPyConnection") -> frozenset[str]:
    """Mark released runs as finished, with the reason of their latest valid release.

    A release lapses when the results of its run change. Its row in `releases` remains.

    Returns:
        The runs that are now shown, no longer shown, or shown with another reason.
    """
    before = _reasons(connection)
    connection.execute(
        "update runs set status = 'withheld', released_because = null where released_because "
        "is not null"
    )
    for run_id, because, digest, state, finished_at in connection.execute(
        "select runs.run_id, releases.because, releases.results_digest, runs.state, "
        "runs.finished_at from runs"
        " inner join releases on runs.run_id = releases.run_id where runs.status = 'withheld'"
        " order by runs.run_id, releases.number, releases.released_at"
    ).fetchall():
        if results_digest(((pair["key"], pair["value"]) for pair in state), finished_at) == digest:
            connection.execute(
                "update runs set status = 'finished', released_because = ? where run_id = ?",
                [because, run_id],
            )
    return frozenset(run_id for run_id, _ in before ^ _reasons(connection))


def _reasons(connection: "DuckDBPyConnection") -> frozenset[tuple[str, str]]:
    """Return (run_id, reason) of the runs that are shown because of a release."""
    shown = (
        "select run_id, released_because from runs where status = 'finished' and "
        "released_because is not null"
    )
    return frozenset(connection.execute(shown).fetchall())
