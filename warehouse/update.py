"""Which partitions of the lake the warehouse's tables hold, and which runs a change of them touches."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from warehouse.lake import Listing, Partition
from warehouse.load import Synced, sync_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

OF_ALL_RUNS = ("runs", "quality_checks")
OF_PUBLISHED_RUNS = ("run_episodes", "test_verdicts", "judge_verdicts", "scores")
OF_NO_RUN = ("models", "nights", "problems", "dialogs", "quarantine")

Choice = Callable[[Partition], bool]


@dataclass
class Update:
    """What changed in the base tables."""

    published: frozenset[str] = frozenset()
    touched: set[str] = field(default_factory=set[str])
    """Runs of which any row that marts may read changed."""
    is_empty: bool = True
    n_files: int = 0
    n_rows: int = 0
    warnings: list[str] = field(default_factory=list[str])

    def add(self, table: str, synced: Synced) -> tuple[Partition, ...]:
        self.is_empty = self.is_empty and not synced.changed
        self.n_files += synced.n_files
        self.n_rows += synced.n_rows
        if synced.n_repeated and table in OF_PUBLISHED_RUNS:
            self.warnings.append(f"{table}: {synced.n_repeated} rows that superseded parts repeat were left out")
        return synced.changed


def update_tables(connection: "DuckDBPyConnection", lake: Path, listing: Listing, selected: Collection[str] | None) -> Update:
    """Bring the base tables up to date with the lake.

    Of a run that is not finished only its row and its quality checks are held. Episodes are held of all runs of a published run's
    benchmark and model, since it may share any of them; the views show those that published runs contain.

    Args:
        selected: runs that may change; None for all, which also removes runs that the lake no longer holds.
    """
    update = Update()

    def sync(table: str, wanted: Choice, in_scope: Choice) -> tuple[Partition, ...]:
        chosen = {folder: partition for folder, partition in listing[table].items() if wanted(partition)}
        return update.add(table, sync_table(connection, lake, table, chosen, in_scope))

    def of_selected_run(partition: Partition) -> bool:
        return selected is None or partition.last_key in selected

    for table in OF_ALL_RUNS:
        changed = sync(table, _any, of_selected_run)
        if table == "runs":
            update.touched.update(partition.last_key for partition in changed)
    published = _published(connection)
    update.published = frozenset(published)
    for table in OF_PUBLISHED_RUNS:
        changed = sync(table, lambda partition: partition.last_key in published, of_selected_run)
        update.touched.update(partition.last_key for partition in changed)

    pairs = {pair for run_id, pair in published.items() if selected is None or run_id in selected}

    def of_pair(partition: Partition) -> bool:
        return (partition.keys["benchmark"], partition.keys["model"]) in pairs

    shared_before = _sharers(connection)
    changed = sync("episodes", of_pair, _any if selected is None else of_pair)
    if changed:
        shared_after = _sharers(connection)
        for partition in changed:
            for sharers in (shared_before, shared_after):
                update.touched |= sharers.get(partition.last_key, set())
    prices_before = _prices(connection)
    for table in OF_NO_RUN:
        changed = sync(table, _any, _any)
        if table == "problems":
            update.touched.update(_runs_on_datasets(connection, changed))
    update.touched.update(_runs_with_models(connection, _prices(connection) ^ prices_before))
    return update


def _any(_: Partition) -> bool:
    return True


def _published(connection: "DuckDBPyConnection") -> dict[str, tuple[str, str]]:
    """run_id -> (benchmark, model) of the runs whose results are shown."""
    rows = connection.execute("select run_id, benchmark, model from runs where status = 'finished'").fetchall()
    return {run_id: (benchmark, model) for run_id, benchmark, model in rows}


def _sharers(connection: "DuckDBPyConnection") -> dict[str, set[str]]:
    """Run that paid for episodes -> runs that contain any of them."""
    rows = connection.execute(
        "select distinct e.run_id, c.run_id from run_episodes as c inner join episode_rows as e on c.episode_id = e.episode_id"
    ).fetchall()
    found: dict[str, set[str]] = {}
    for paid_by, contained_in in rows:
        found.setdefault(paid_by, set()).add(contained_in)
    return found


def _runs_on_datasets(connection: "DuckDBPyConnection", changed: Sequence[Partition]) -> set[str]:
    found: set[str] = set()
    for partition in changed:
        rows = connection.execute(
            "select run_id from runs where (benchmark, dataset_version) = (?, ?)", list(partition.keys.values())
        ).fetchall()
        found.update(run_id for (run_id,) in rows)
    return found


def _prices(connection: "DuckDBPyConnection") -> set[tuple[object, ...]]:
    """All that marts read of models. A model's part is written by each of its runs, mostly with what it held before."""
    return set(
        connection.execute(
            "select model, revision, weights_digest, chat_template, usd_per_million_input, usd_per_million_output from models"
        ).fetchall()
    )


def _runs_with_models(connection: "DuckDBPyConnection", changed: Iterable[tuple[object, ...]]) -> set[str]:
    labels = sorted({str(row[0]) for row in changed})
    rows = connection.execute("select run_id from run_roles where list_contains(?::varchar[], model)", [labels]).fetchall()
    return {run_id for (run_id,) in rows}
