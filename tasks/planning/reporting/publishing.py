"""Publication of the lake's runs to the warehouse, with the marts of all benchmarks."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from getpass import getuser
from typing import TYPE_CHECKING, Any

from schemas.errors import UsageError
from schemas.lake.records import Release, RunRecord, results_digest, utc_now
from tasks.benchmarks.registry import BENCHMARKS
from tasks.metrics.registry import METRICS
from tasks.planning.why_rerun import find_run
from tasks.storage.home import Home, naming_full_disk
from tasks.storage.parquet_store import Lake, run_keys

if TYPE_CHECKING:
    from warehouse.marts import MartSource
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
        call: Calls a function with arguments in another process. That process has no API keys, so
            the current process publishes a lake in an object store.

    Raises:
        DiskFull: no room for the new warehouse file beside the old file.
        ParleyError: another publication holds the lock, or the lake cannot be read. The old
            warehouse stays.
    """
    from warehouse.publication.publish import publish

    size = home.warehouse.stat().st_size if home.warehouse.exists() else None
    with naming_full_disk("the new warehouse", home.path, size):
        return (publish if call is None or home.is_store else partial(call, publish))(
            home.path,
            lake=home.lake,
            run_ids=run_ids,
            marts=benchmark_marts(),
            directions=metric_directions(),
            judged=judged_metrics(),
            shares=metric_shares(),
            rebuild=rebuild,
        )


def benchmark_marts() -> "list[MartSource]":
    """Return the marts of all benchmarks."""
    return [mart for name in BENCHMARKS.names() for mart in BENCHMARKS.load(name).results.marts]


def metric_directions() -> dict[str, str]:
    """Map each metric of all benchmarks to its better direction, `higher` or `lower`.

    Metrics without a better direction are left out.
    """
    directions = {name: METRICS.load(name).better for name in sorted(_all_metrics())}
    return {name: better for name, better in directions.items() if better is not None}


def judged_metrics() -> frozenset[str]:
    """Return the metrics of all benchmarks that read judgements."""
    return frozenset(name for name in _all_metrics() if METRICS.load(name).judged)


def metric_shares() -> dict[str, bool]:
    """Map each metric of all benchmarks to whether it is a share in [0, 1]."""
    return {name: METRICS.load(name).ends == (0.0, 1.0) for name in _all_metrics()}


def _all_metrics() -> set[str]:
    return {name for other in BENCHMARKS.names() for name in BENCHMARKS.load(other).all_metrics}


def unpublished_runs(home: Home, records: Iterable[RunRecord]) -> tuple[str, ...]:
    """Return the runs whose latest state in the lake is not in the warehouse."""
    from warehouse.connect import shown_runs

    shown = shown_runs(home.path)
    return tuple(
        record.run_id for record in records if shown.get(record.run_id) != record.finished_at
    )


def unpublished_reasons(home: Home, run_ids: Iterable[str]) -> dict[str, str]:
    """Map each given run that the published warehouse lacks to the reason."""
    from warehouse.connect import query

    missing = "case when status <> 'finished' then coalesce(withheld_reason, status) end"
    shown = dict(query(home.path, f"select run_id, {missing} from runs")[1])
    unreadable = (
        "found at publication: its record cannot be read; the log names the file. Move the file "
        "away and run again"
    )
    reasons = {run_id: shown.get(run_id, unreadable) for run_id in run_ids}
    return {run_id: reason for run_id, reason in reasons.items() if reason is not None}


@dataclass(frozen=True)
class Released:
    """Release of a run (a person's order to publish it although its checks withhold it).

    `still_withheld_because` is None if the run is published. Otherwise its files are damaged, or
    contain no scores.
    """

    release: Release
    setting: str
    still_withheld_because: str | None


def release(home: Home, run_id: str, because: str) -> Released:
    """Publish a withheld run, with a person's reason.

    A release is valid for the run's present results. Other results of the run need another release.

    Args:
        home: home with lake and warehouse.
        run_id: id of the run, or an unambiguous beginning of it.
        because: reason why the run may be published, in one line.

    Raises:
        UsageError: there is no such run or no reason, the run's checks do not withhold it, or an
            invocation is working on it.
        ParleyError: the run could not be published. The release is stored for the next publication.
    """
    lake = Lake(home.lake)
    record = find_run(lake, run_id)
    with home.run_lock(record.run_id):
        record = find_run(lake, record.run_id)
        number = 1 + max((earlier.number for earlier in _releases(lake, record)), default=0)
        new = _new_release(record, because.strip(), number)
        lake.write_part("releases", [new], f"release-{number}", **run_keys(record))
    publish_to_warehouse(home, [new.run_id])
    return Released(new, record.setting, unpublished_reasons(home, [new.run_id]).get(new.run_id))


def _new_release(record: RunRecord, because: str, number: int) -> Release:
    name = f"run {record.run_id[:12]} of {record.model}"
    if not because:
        raise UsageError(
            f"{name}: a release needs a reason, which tables show: "
            '--because "why its numbers may be read"'
        )
    if record.status == "finished":
        raise UsageError(
            f"{name} passed its checks. If a publication withholds it, its files were changed or "
            "damaged, which no release fixes: `parley publish` names the files"
        )
    if record.status == "incomplete":
        raise UsageError(f"{name} is not finished. Type its command again: finished work is reused")
    return Release(
        run_id=record.run_id,
        benchmark=record.benchmark,
        model=record.model,
        because=because,
        withheld_reason=record.withheld_reason or "",
        released_at=utc_now(),
        results_digest=results_digest(record.state, record.finished_at),
        released_by=_user(),
        number=number,
    )


def released_because(lake: Lake, record: RunRecord) -> str | None:
    """Return the reason of the release that publishes a withheld run.

    None if the run is not withheld, or has no release for its present results.
    """
    if record.status != "withheld":
        return None
    present = results_digest(record.state, record.finished_at)
    valid = [release for release in _releases(lake, record) if release.results_digest == present]
    return max(valid, key=lambda release: release.number).because if valid else None


def _releases(lake: Lake, record: RunRecord) -> Sequence[Release]:
    return lake.read("releases", Release, **run_keys(record))


def _user() -> str:
    try:
        return getuser()
    except (OSError, KeyError, ImportError):  # an account without a name
        return ""
