"""The answer of `parley report`: a night, its results, and its share of reused and paid work."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from flows.text.results import print_result_rows
from flows.text.work import work_lines
from schemas.errors import UsageError
from schemas.night.budget import CapSpent
from schemas.night.work import RunWork, StageTime
from schemas.outside.display import plain_line
from schemas.run import NightRecord, RunRecord
from tasks.planning.known_runs import find_run
from tasks.planning.reporting.releasing import released_because
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake


@dataclass(frozen=True)
class _Night:
    night_id: str
    started_at: str
    finished_at: str | None
    """None for a night that did not come to its end."""
    work: tuple[RunWork, ...]
    budget: tuple[CapSpent, ...] = ()


def show_night(home: Home, wanted: str | None, *, json_output: bool) -> None:
    """Print a night.

    Args:
        wanted: its id, or an unambiguous beginning of it; None for the latest.

    Raises:
        UsageError: no such night, or several.
    """
    night = _find(Lake(home.lake), wanted)
    seconds = seconds_of(Lake(home.lake), night.night_id)
    if json_output:
        said = {"night_id": night.night_id, "started_at": night.started_at, "finished_at": night.finished_at}
        said |= {"budget": [one.model_dump() for one in night.budget]}
        runs = [work.model_dump() | {"seconds": seconds.get(work.run_id, {})} for work in night.work]
        print(json.dumps(said | {"runs": runs, "seconds": seconds.get("", {})}))
        return
    print(f"Night {night.night_id}, {night.started_at} to {night.finished_at or '... (it did not come to its end)'}")
    for one in night.budget:
        stopped = ", the night stopped at it" if one.is_met else ""
        print(f"budget: {one.cap}={one.allowed:.10g}: {one.text} ({one.spent / one.allowed:.1%}){stopped}")
    print_result_rows(home, [work.run_id for work in night.work if work.status == "finished"])
    for work in night.work:
        print(f"{plain_line(work.title)}: {work.status} (run {work.run_id[:12]})")
        for line in withheld_lines(home, work.run_id) if work.status in ("withheld", "incomplete") else ():
            print(f"  {line}")
        for line in work_lines(work):
            print(f"  {line}")
        if work.run_id in seconds:
            print(f"  time: {_summed(seconds[work.run_id])}")
    if "" in seconds:
        print(f"besides the runs: {_summed(seconds[''])}")


def seconds_of(lake: Lake, night_id: str) -> Mapping[str, Mapping[str, float]]:
    """Run, or nothing for the night itself -> stage -> seconds. Nothing for a night that did not come to its end."""
    found: dict[str, dict[str, float]] = {}
    for time in lake.read("stage_times", StageTime, night_id=night_id):
        stages = found.setdefault(time.run_id, {})
        stages[time.stage] = round(stages.get(time.stage, 0.0) + time.seconds, 3)
    return found


def _summed(stages: Mapping[str, float]) -> str:
    """The stages in their order, and all of them together."""
    return f"{sum(stages.values()):.1f} s ({', '.join(f'{plain_line(stage)} {s:.1f}' for stage, s in stages.items())})"


def withheld_lines(home: Home, run_id: str) -> list[str]:
    """Why a run is withheld, and the word by which it is published all the same, if any."""
    lake = Lake(home.lake)
    record = find_run(lake, run_id)
    word = released_because(lake, record)
    said = [f"{record.status}: {plain_line(record.withheld_reason, 1000)}"] if record.withheld_reason else []
    return [*said, f"released: {plain_line(word, 500)}"] if word is not None else said


def _find(lake: Lake, wanted: str | None) -> _Night:
    nights = {
        n.night_id: _Night(n.night_id, n.started_at, n.finished_at, n.work, n.budget) for n in lake.read("nights", NightRecord)
    }
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
