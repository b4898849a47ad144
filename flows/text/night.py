"""The answer of `parley report`: a night, its results, and its share of reused and paid work."""

import json
from dataclasses import dataclass

from flows.text.results import print_result_rows
from flows.text.work import work_lines
from schemas.display import plain_line
from schemas.errors import UsageError
from schemas.run import NightRecord, RunRecord
from schemas.work import RunWork
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake


@dataclass(frozen=True)
class _Night:
    night_id: str
    started_at: str
    finished_at: str | None
    """None for a night that did not come to its end."""
    work: tuple[RunWork, ...]


def show_night(home: Home, wanted: str | None, *, json_output: bool) -> None:
    """Print a night.

    Args:
        wanted: its id, or an unambiguous beginning of it; None for the latest.

    Raises:
        UsageError: no such night, or several.
    """
    night = _find(Lake(home.lake), wanted)
    if json_output:
        said = {"night_id": night.night_id, "started_at": night.started_at, "finished_at": night.finished_at}
        print(json.dumps(said | {"runs": [work.model_dump() for work in night.work]}))
        return
    print(f"Night {night.night_id}, {night.started_at} to {night.finished_at or '... (it did not come to its end)'}")
    print_result_rows(home, [work.run_id for work in night.work if work.status == "finished"])
    for work in night.work:
        print(f"{plain_line(work.title)}: {work.status} (run {work.run_id[:12]})")
        for line in work_lines(work):
            print(f"  {line}")


def _find(lake: Lake, wanted: str | None) -> _Night:
    nights = {n.night_id: _Night(n.night_id, n.started_at, n.finished_at, n.work) for n in lake.read("nights", NightRecord)}
    for run in lake.read("runs", RunRecord):
        if run.work is not None and run.night_id not in nights:
            nights[run.night_id] = _Night(run.night_id, run.started_at, None, ())
        if run.work is not None and nights.get(run.night_id) is not None and nights[run.night_id].finished_at is None:
            night = nights[run.night_id]
            nights[run.night_id] = _Night(night.night_id, min(night.started_at, run.started_at), None, (*night.work, run.work))
    found = sorted(name for name in nights if name.startswith(wanted or ""))
    if not found or (wanted is not None and len(found) > 1):
        names = ", ".join((found or sorted(nights))[-8:]) or "none yet"
        problem = "several nights begin with" if found else "no night"
        raise UsageError(f"{problem} {wanted or ''!r} in {lake.root}; the latest are: {names}")
    return nights[found[-1]]
