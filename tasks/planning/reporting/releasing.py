"""Releases a withheld run: keeps a person's word in the lake, by which every publication shows the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from getpass import getuser

from schemas.errors import UsageError
from schemas.lake.records import RunRecord
from schemas.night.release import Release, results_digest
from tasks.planning.known_runs import find_run
from tasks.planning.reporting.publishing import left_out, publish_to_warehouse
from tasks.storage.clock import utc_now
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake


@dataclass(frozen=True)
class Released:
    """A release, and why the run is withheld all the same: its files are damaged or hold no scores. None where it is shown."""

    release: Release
    setting: str
    still_withheld_because: str | None


def release(home: Home, run_id: str, because: str) -> Released:
    """Publish a withheld run with a person's word.

    The word holds for the results as they lie in the lake now. A night that makes other results for the run needs another one.

    Args:
        run_id: the run's id, or an unambiguous beginning of it.
        because: why it may be published, in one line.

    Raises:
        UsageError: no such run, no reason, a run that its checks do not withhold, or one that is being worked on.
        ParleyError: it could not be published. The word is kept for the next publication.
    """
    lake = Lake(home.lake)
    record = find_run(lake, run_id)
    with home.run_lock(record.run_id):
        record = find_run(lake, record.run_id)
        number = 1 + max((earlier.number for earlier in _releases(lake, record)), default=0)
        made = _made(record, because.strip(), number)
        lake.write_part("releases", [made], f"release-{number}", **_keys(record))
    publish_to_warehouse(home, [made.run_id])
    return Released(made, record.setting, left_out(home, [made.run_id]).get(made.run_id))


def _made(record: RunRecord, because: str, number: int) -> Release:
    name = f"run {record.run_id[:12]} of {record.model}"
    if not because:
        raise UsageError(
            f'{name} is released by a reason that tables can show: --because "why its numbers may be read"'
        )
    if record.status == "finished":
        raise UsageError(
            f"{name} passed its checks. If a publication withholds it, its files were changed or damaged, which no release"
            " mends: `parley publish` names the files"
        )
    if record.status == "incomplete":
        raise UsageError(
            f"{name} did not come to its end. Type its command again: finished work is not done twice"
        )
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
    """The word that publishes a withheld run as it stands; None where there is none, or it was said of other results."""
    if record.status != "withheld":
        return None
    present = results_digest(record.state, record.finished_at)
    holding = [release for release in _releases(lake, record) if release.results_digest == present]
    return max(holding, key=lambda release: release.number).because if holding else None


def _releases(lake: Lake, record: RunRecord) -> Sequence[Release]:
    return lake.read("releases", Release, **_keys(record))


def _keys(record: RunRecord) -> dict[str, str]:
    return {"benchmark": record.benchmark, "model": record.model, "run_id": record.run_id}


def _user() -> str:
    try:
        return getuser()
    except (OSError, KeyError, ImportError):  # an account without a name
        return ""
