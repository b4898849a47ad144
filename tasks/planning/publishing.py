"""Publishes the lake's runs to the warehouse, with the marts of all benchmarks."""

from collections.abc import Iterable, Sequence

from schemas.run import RunRecord
from tasks.benchmarks import registry
from tasks.storage.disk import naming_full_disk
from tasks.storage.home import Home
from warehouse.publish import PublishReport, publish


def publish_to_warehouse(home: Home, run_ids: Sequence[str] | None = None, *, rebuild: bool = False) -> PublishReport:
    """Bring the warehouse up to date with the lake: some runs, or all.

    Raises:
        DiskFull: no room for the new file beside the old one.
        ParleyError: another publish holds the lock, or the lake cannot be read; the old warehouse stays.
    """
    marts = [mart for name in registry.names() for mart in registry.load(name).results.marts]
    size = home.warehouse.stat().st_size if home.warehouse.exists() else None
    with naming_full_disk("the new warehouse", home.path, size):
        return publish(home.path, run_ids=run_ids, marts=marts, rebuild=rebuild)


def unpublished(home: Home, records: Iterable[RunRecord]) -> tuple[str, ...]:
    """Finished runs that the warehouse does not show as the lake holds them."""
    from warehouse.connect import shown_runs

    shown = shown_runs(home.path)
    return tuple(record.run_id for record in records if shown.get(record.run_id) != record.finished_at)


def left_out(home: Home, run_ids: Iterable[str]) -> dict[str, str]:
    """Finished runs that the warehouse does not show after they were published, each with the reason."""
    from warehouse.connect import query

    shown = dict(query(home.path, "select run_id, coalesce(withheld_reason, status) from runs where status <> 'finished'")[1])
    finished = {run_id for (run_id,) in query(home.path, "select run_id from runs where status = 'finished'")[1]}
    unreadable = "found at publication: its record cannot be read; the log names the file. Move it away and run again"
    return {run_id: shown.get(run_id, unreadable) for run_id in run_ids if run_id not in finished}
