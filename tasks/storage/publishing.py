"""The lake's runs into the warehouse, with the marts of all benchmarks."""

from collections.abc import Iterable, Sequence

from schemas.run import RunRecord
from tasks.benchmarks import registry
from tasks.storage.home import Home
from warehouse.publish import PublishReport, publish


def publish_to_warehouse(home: Home, run_ids: Sequence[str] | None = None, *, rebuild: bool = False) -> PublishReport:
    """Bring the warehouse up to date with the lake: some runs, or all.

    Raises:
        ParleyError: another publish holds the lock, or the lake cannot be read; the old warehouse stays.
    """
    marts = [mart for name in registry.names() for mart in registry.load(name).marts]
    return publish(home.path, run_ids=run_ids, marts=marts, rebuild=rebuild)


def unpublished(home: Home, records: Iterable[RunRecord]) -> tuple[str, ...]:
    """Those of the finished runs that the warehouse does not show as the lake holds them."""
    from warehouse.connect import shown_runs

    shown = shown_runs(home.path)
    return tuple(record.run_id for record in records if shown.get(record.run_id) != record.finished_at)
