"""Release of withheld runs: a person's reason, stored in the lake, lets publications show a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from getpass import getuser

from schemas.errors import UsageError
from schemas.lake.records import RunRecord
from schemas.night.release import Release, results_digest
from tasks.planning.known_runs import find_run
from tasks.planning.reporting.publishing import publish_to_warehouse, unpublished_reasons
from tasks.storage.clock import utc_now
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake


@dataclass(frozen=True)
class Released:
    """Release of a run, and the reason why the run is still withheld.

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
        lake.write_part("releases", [new], f"release-{number}", **_keys(record))
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
    return lake.read("releases", Release, **_keys(record))


def _keys(record: RunRecord) -> dict[str, str]:
    return {"benchmark": record.benchmark, "model": record.model, "run_id": record.run_id}


def _user() -> str:
    try:
        return getuser()
    except (OSError, KeyError, ImportError):  # an account without a name
        return ""
