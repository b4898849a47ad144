"""Withholds finished runs that cannot be published as they lie in the lake, one by one, with the reason.

Other runs of the night are published. Each publication looks again at a withheld run, until its files are mended or made anew.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.content_id import text_digest
from warehouse import sql_files
from warehouse.lake import Partition
from warehouse.publication.load import Damage
from warehouse.publication.seal import broken_seal

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

RULES = (
    *("rows_present", "episodes_exist", "run_of_episodes", "members_only", "audited_passes"),
    *("record_counts", "checks_passed"),
)
_LOOK_AGAIN = -1
"""A time that no part has: the record is read again by the next publication."""
_MAX_REASON = 1500


@dataclass(frozen=True)
class Withheld:
    """A run that this publication withheld, and why."""

    run_id: str
    reason: str


def withhold(
    connection: "DuckDBPyConnection", faults: Mapping[str, Sequence[str]]
) -> tuple[Withheld, ...]:
    """Mark runs as withheld. Their rows in other tables are the caller's to remove.

    Args:
        faults: run_id -> what is wrong with it.
    """
    withheld = tuple(
        Withheld(run_id, "; ".join(said)[:_MAX_REASON])
        for run_id, said in sorted(faults.items())
        if said
    )
    for one in withheld:
        connection.execute(
            "update runs set status = 'withheld', withheld_reason = ?, released_because = null where run_id = ?",
            [f"found at publication: {one.reason}", one.run_id],
        )
        connection.execute(
            "update _loaded_parts set mtime_ns = ? where table_name = 'runs' and ends_with(folder, ?)",
            [_LOOK_AGAIN, f"/run={one.run_id}"],
        )
    return withheld


def changed_since_checked(lake: Path, records: Iterable[Partition]) -> dict[str, list[str]]:
    """Runs whose files changed after their quality checks.

    Args:
        records: partitions of `runs`, of runs that are finished.
    """
    found = {record.last_key: broken_seal(lake, record) for record in records}
    return {run_id: [fault] for run_id, fault in found.items() if fault}


def unsound(
    connection: "DuckDBPyConnection", judged: Collection[str], damaged: Iterable[Damage]
) -> dict[str, list[str]]:
    """Faults of published runs as they are loaded now, by run.

    Args:
        judged: runs of which anything changed.
        damaged: partitions that could not be loaded.
    """
    found: dict[str, list[str]] = {}
    for damage in damaged:
        for run_id in _runs_hurt(connection, damage.partition):
            found.setdefault(run_id, []).append(damage.reason)
    connection.execute("create or replace temporary table judged_runs (run_id varchar not null)")
    if judged:
        connection.execute(
            "insert into judged_runs (run_id) select unnest(?::varchar[])", [sorted(judged)]
        )
    for rule in sql_files.load_all("soundness", RULES):
        for run_id, fault in connection.execute(rule.statement).fetchall():
            found.setdefault(run_id, []).append(fault)
    for run_id, spec_json in connection.execute(
        "select run_id, spec_json from runs semi join judged_runs using (run_id)"
    ).fetchall():
        if text_digest(spec_json) != run_id:
            found.setdefault(run_id, []).append("record_of_run: its specification is another run's")
    return found


def _runs_hurt(connection: "DuckDBPyConnection", partition: Partition) -> list[str]:
    """Published runs whose numbers are made from a partition; of `episodes`, which runs share, `episodes_exist` knows more."""
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
