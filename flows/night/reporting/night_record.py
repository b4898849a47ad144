"""Record of a night: its rows in the lake."""

from collections.abc import Iterator, Sequence

from schemas.lake.records import NightRecord, utc_now
from schemas.night.budget import CapSpent
from schemas.night.work import FailedRun, StageTime
from tasks.planning.reporting.report import RunReport, works
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake

_NAMES = {"run_id", "title", "setting", "model"}
"""Fields that both `RunReport` and `FailedRun` have."""


def record_night(
    home: Home,
    night_id: str,
    started: str,
    reports: Sequence[RunReport],
    budget: Sequence[CapSpent] = (),
    times: Sequence[StageTime] = (),
) -> None:
    """Write a night's runs, the amount spent of each cap, and the stage times to the lake."""
    row = NightRecord(
        night_id=night_id,
        started_at=started,
        finished_at=utc_now(),
        run_ids=tuple(report.run_id for report in reports if report.run_id),
        n_published=sum(report.is_published for report in reports),
        n_withheld=sum(report.status == "withheld" for report in reports),
        work=works(reports),
        budget=tuple(budget),
    )
    lake = Lake(home.lake)
    lake.write_part("nights", [row], "0", night_id=night_id)
    lake.write_part("stage_times", times, "0", night_id=night_id)
    if failed := tuple(_failed(night_id, reports)):
        lake.write_part("failed_runs", failed, "0", night_id=night_id)


def _failed(night_id: str, reports: Sequence[RunReport]) -> Iterator[FailedRun]:
    for report in reports:
        if report.status == "failed":
            yield FailedRun(
                night_id=night_id, reason=report.reason or "", **report.model_dump(include=_NAMES)
            )


def record_publication(home: Home, night_id: str, times: Sequence[StageTime]) -> None:
    """Write how long the publication took.

    A publication cannot contain its own duration, so the lake has a table for it.
    """
    Lake(home.lake).write_part("publication_times", times, "0", night_id=night_id)
