"""The lake's runs into the warehouse, with the marts of all benchmarks."""

from collections.abc import Sequence

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


def unpublished(home: Home, run_ids: Sequence[str]) -> tuple[str, ...]:
    """Those of the runs that the warehouse does not show as finished."""
    from warehouse.connect import query

    if not home.warehouse.exists():
        return tuple(run_ids)
    _, rows = query(home.path, "SELECT run_id FROM runs WHERE status = 'finished'")
    shown = {row[0] for row in rows}
    return tuple(run_id for run_id in run_ids if run_id not in shown)
