"""Update of the base tables from the lake, the runs that it affects, and those that it withholds.

A finished run that cannot be published as it is in the lake is withheld, with the reason. Other
runs of the night are published. Each publication checks a withheld run again, until its files are
fixed or made again.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.content_id import text_digest
from schemas.errors import SchemaMismatch
from schemas.grouping import grouped
from schemas.lake.records import results_digest
from schemas.lake.tables import LOADED
from warehouse import sql_files
from warehouse.lake import SEALED, Listing, Partition, broken_seal
from warehouse.marts import set_runs
from warehouse.publication.load import Damage, Synced, loaded_parts, out_of_date, sync_table, unload

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
    faults = [
        (run_id, damage.reason)
        for damage in damaged
        for run_id in _runs_hurt(connection, damage.partition)
    ]
    set_runs(connection, "judged_runs", judged)
    for rule in RULES:
        faults += connection.execute(sql_files.load("soundness", rule).statement).fetchall()
    for run_id, spec_json in connection.execute(
        "select run_id, spec_json from runs semi join judged_runs using (run_id)"
    ).fetchall():
        if text_digest(spec_json) != run_id:
            faults.append((run_id, "record_of_run: its specification belongs to another run"))
    return grouped(faults)


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


OF_ALL_RUNS = ("runs", "quality_checks", "comparison_rules", "releases", "served_hours")
OF_PUBLISHED_RUNS = (
    "run_episodes",
    "decisions",
    "test_verdicts",
    "forgery_audit",
    "judge_verdicts",
    "scores",
)
OF_NO_RUN = tuple(name for name, table in LOADED.items() if "run_id" not in table.partition_by)

Choice = Callable[[Partition], bool]


@dataclass
class Update:
    """Changes that one publication makes to the base tables."""

    published: frozenset[str] = frozenset()
    touched: set[str] = field(default_factory=set[str])
    """Runs with a changed row that a mart may read."""
    is_empty: bool = True
    n_files: int = 0
    n_rows: int = 0
    warnings: list[str] = field(default_factory=list[str])
    damaged: list[Damage] = field(default_factory=list[Damage])
    withheld: list[Withheld] = field(default_factory=list[Withheld])
    """Finished runs that are not shown."""

    def add(self, table: str, synced: Synced) -> tuple[Partition, ...]:
        """Add the counts of one table's update, and return the partitions that it changed."""
        self.is_empty = self.is_empty and not synced.changed
        self.n_files += synced.n_files
        self.n_rows += synced.n_rows
        self.damaged += synced.damaged
        if synced.n_repeated and table in OF_PUBLISHED_RUNS:
            self.warnings.append(
                f"{table}: {synced.n_repeated} rows repeated by superseded parts were left out"
            )
        return synced.changed


def update_tables(
    connection: "DuckDBPyConnection", lake: Path, listing: Listing, selected: Collection[str] | None
) -> Update:
    """Bring the base tables up to date with the lake.

    An unfinished run has only its row and its quality checks in the warehouse. Episodes of all runs
    with a published run's benchmark and model are loaded, since the published run may share them.
    The views show the episodes that published runs contain.

    A finished run is withheld if its files changed after the checks, cannot be read or are
    inconsistent. A withheld run that was released counts as finished.

    Args:
        selected: runs that may change. None: all, and runs that the lake no longer has are removed.

    Raises:
        SchemaMismatch: another schema version wrote the files, and no run is left to show.
    """
    update = Update()

    def sync(table: str, wanted: Choice, in_scope: Choice) -> tuple[Partition, ...]:
        chosen = {
            folder: partition for folder, partition in listing[table].items() if wanted(partition)
        }
        return update.add(table, sync_table(connection, lake, table, chosen, in_scope))

    def of_selected_run(partition: Partition) -> bool:
        return selected is None or partition.last_key in selected

    for table in OF_ALL_RUNS:
        changed = sync(table, _any, of_selected_run)
        if table == "runs":
            update.touched.update(partition.last_key for partition in changed)
    update.touched |= apply_releases(connection)
    update.withheld += withhold(
        connection,
        changed_since_checked(lake, _records_to_compare(connection, listing, update, selected)),
    )
    published = _published(connection)
    for table in OF_PUBLISHED_RUNS:
        changed = sync(table, lambda partition: partition.last_key in published, of_selected_run)
        update.touched.update(partition.last_key for partition in changed)

    pairs = {pair for run_id, pair in published.items() if selected is None or run_id in selected}

    def of_pair(partition: Partition) -> bool:
        return (partition.keys["benchmark"], partition.keys["model"]) in pairs

    of_scope = _any if selected is None else of_pair
    held = {
        folder: partition for folder, partition in listing["episodes"].items() if of_pair(partition)
    }
    payers = [
        p.last_key
        for changes in out_of_date(connection, "episodes", held, of_scope)
        for p in changes
    ]
    update.touched |= _run_ids(connection, _SHARING_EPISODES, [[payers]])
    sync("episodes", of_pair, of_scope)
    update.touched |= _run_ids(connection, _SHARING_EPISODES, [[payers]])
    prices_before = _prices(connection)
    for table in OF_NO_RUN:
        changed = sync(table, _any, _any)
        if table == "problems":
            datasets = (tuple(partition.keys.values()) for partition in changed)
            update.touched |= _run_ids(connection, _ON_DATASET, datasets)
    repriced = {tuple(map(str, row[:4])) for row in _prices(connection) ^ prices_before}
    update.touched |= _run_ids(connection, _WITH_MODEL, sorted(repriced))
    _withhold_unsound(connection, listing, update)
    return update


def _records_to_compare(
    connection: "DuckDBPyConnection",
    listing: Listing,
    update: Update,
    selected: Collection[str] | None,
) -> list[Partition]:
    """Return the records of finished runs in scope whose record or result files have changed."""
    changed = set(update.touched)
    for table in SEALED:
        loaded = loaded_parts(connection, table)
        changed.update(
            p.last_key for p in listing[table].values() if loaded.get(p.folder) != p.parts
        )
        changed.update(
            Partition(table, folder).last_key for folder in loaded if folder not in listing[table]
        )
    finished = changed & _published(connection).keys()
    return [
        p
        for p in listing["runs"].values()
        if p.last_key in finished and (selected is None or p.last_key in selected)
    ]


def _withhold_unsound(connection: "DuckDBPyConnection", listing: Listing, update: Update) -> None:
    published = _published(connection)
    faults = unsound(connection, update.touched & published.keys(), update.damaged)
    withheld = withhold(connection, faults)
    gone = {withheld_run.run_id for withheld_run in withheld}
    for table in OF_PUBLISHED_RUNS:
        unload(connection, [p for p in listing[table].values() if p.last_key in gone])
    update.withheld += withheld
    for damage in update.damaged:
        if damage.partition.table == "runs":
            update.withheld.append(Withheld(damage.partition.last_key, damage.reason))
        elif not any(damage.reason in withheld_run.reason for withheld_run in withheld):
            update.warnings.append(damage.reason)
    update.touched |= {withheld_run.run_id for withheld_run in update.withheld}
    update.published = frozenset(_published(connection))
    older = next((damage for damage in update.damaged if damage.is_other_version), None)
    if older is not None and not update.published:
        raise SchemaMismatch(older.reason)


def _any(_: Partition) -> bool:
    return True


def _published(connection: "DuckDBPyConnection") -> dict[str, tuple[str, str]]:
    """Return run_id -> (benchmark, model) of the runs whose results are shown."""
    rows = connection.execute(
        "select run_id, benchmark, model from runs where status = 'finished'"
    ).fetchall()
    return {run_id: (benchmark, model) for run_id, benchmark, model in rows}


def _prices(connection: "DuckDBPyConnection") -> set[tuple[object, ...]]:
    """Return the columns of `models` that marts read, one tuple per model.

    Values are compared, not parts, because each run of a model rewrites the model's part, mostly
    with unchanged values.
    """
    return set(
        connection.execute(
            "select model, revision, weights_digest, chat_template, usd_per_million_input, "
            "usd_per_million_output, usd_per_hour"
            " from models"
        ).fetchall()
    )


_SHARING_EPISODES = """
select distinct run_id from run_episodes where episode_id in
    (select episode_id from episode_rows where run_id in (select unnest(?::varchar[])))
"""
"""Query of the runs that contain an episode paid for by one of these runs."""
_ON_DATASET = "select run_id from runs where (benchmark, dataset_version) = (?, ?)"
_WITH_MODEL = """
select run_id from run_roles where (model, revision, weights_digest, chat_template) = (?, ?, ?, ?)
"""
"""Query of the runs in which this identity has a role. A night with a model's next revision affects
no earlier run."""


def _run_ids(
    connection: "DuckDBPyConnection", statement: str, values: Iterable[Sequence[object]]
) -> set[str]:
    """Return the runs that a query finds for any of these values."""
    return {
        run_id
        for parameters in values
        for (run_id,) in connection.execute(statement, list(parameters)).fetchall()
    }
