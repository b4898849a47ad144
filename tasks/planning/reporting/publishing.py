"""Publication of the lake's runs to the warehouse, with the marts of all benchmarks."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from schemas.lake.records import RunRecord
from tasks.benchmarks.registry import BENCHMARKS
from tasks.metrics.registry import METRICS
from tasks.storage.disk import naming_full_disk
from tasks.storage.home import Home

if TYPE_CHECKING:
    from warehouse.publication.publish import PublishReport


def publish_to_warehouse(
    home: Home,
    run_ids: Sequence[str] | None = None,
    *,
    rebuild: bool = False,
    call: Callable[..., Any] | None = None,
) -> "PublishReport":
    """Bring the warehouse up to date with the lake: some runs, or all.

    Args:
        call: Calls `publish` with its arguments in another process. That process has no keys, so a
            lake in an object store is published by this one.

    Raises:
        DiskFull: no room for the new file beside the old one.
        ParleyError: another publication holds the lock, or the lake cannot be read. The old
            warehouse stays.
    """
    from warehouse.publication.publish import publish

    marts = [mart for name in BENCHMARKS.names() for mart in BENCHMARKS.load(name).results.marts]
    size = home.warehouse.stat().st_size if home.warehouse.exists() else None
    with naming_full_disk("the new warehouse", home.path, size):
        return (publish if call is None or home.is_store else partial(call, publish))(
            home.path,
            lake=home.lake,
            run_ids=run_ids,
            marts=marts,
            directions=metric_directions(),
            judged=judged_metrics(),
            rebuild=rebuild,
        )


def metric_directions() -> dict[str, str]:
    """Map each metric of all benchmarks to its better direction, `higher` or `lower`.

    Metrics without a better direction are left out.
    """
    measured = {
        name for benchmark in BENCHMARKS.names() for name in BENCHMARKS.load(benchmark).all_metrics
    }
    directions = {name: METRICS.load(name).better for name in sorted(measured)}
    return {name: better for name, better in directions.items() if better is not None}


def judged_metrics() -> frozenset[str]:
    """Return the metrics of all benchmarks that read judgements."""
    measured = {
        name for benchmark in BENCHMARKS.names() for name in BENCHMARKS.load(benchmark).all_metrics
    }
    return frozenset(name for name in measured if METRICS.load(name).judged)


def unpublished_runs(home: Home, records: Iterable[RunRecord]) -> tuple[str, ...]:
    """Return the runs whose latest state in the lake is not in the warehouse."""
    from warehouse.connect import shown_runs

    shown = shown_runs(home.path)
    return tuple(
        record.run_id for record in records if shown.get(record.run_id) != record.finished_at
    )


def unpublished_reasons(home: Home, run_ids: Iterable[str]) -> dict[str, str]:
    """Map each of these runs that the warehouse does not show, after publication, to the reason."""
    from warehouse.connect import query

    missing = "case when status <> 'finished' then coalesce(withheld_reason, status) end"
    shown = dict(query(home.path, f"select run_id, {missing} from runs")[1])
    unreadable = (
        "found at publication: its record cannot be read; the log names the file. Move the file "
        "away and run again"
    )
    reasons = {run_id: shown.get(run_id, unreadable) for run_id in run_ids}
    return {run_id: reason for run_id, reason in reasons.items() if reason is not None}
