"""The answer of `parley report`: a night, its results, and its share of reused and paid work."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from flows.text.reasons import in_three_lines
from flows.text.results import print_result_rows
from flows.text.work import audit_line, work_lines
from schemas.audit import AuditCounts, ForgeryAudit, audit_counts
from schemas.errors import UsageError
from schemas.lake.records import NightRecord, RunRecord
from schemas.night.budget import CapSpent
from schemas.night.work import FailedRun, RunWork, StageTime
from schemas.outside.display import plain_line
from tasks.planning.known_runs import find_run
from tasks.planning.reporting.releasing import released_because
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake

_STOPPED = ("withheld", "incomplete")
"""Statuses that have a reason."""


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
    lake = Lake(home.lake)
    night = _find(lake, wanted)
    seconds, wall_s = seconds_of(lake, night.night_id), wall_seconds(lake, night.night_id)
    failed = lake.read("failed_runs", FailedRun, night_id=night.night_id)
    if json_output:
        said = {
            "night_id": night.night_id,
            "started_at": night.started_at,
            "finished_at": night.finished_at,
        }
        said |= {"wall_seconds": wall_s, "budget": [one.model_dump() for one in night.budget]}
        runs = [
            work.model_dump()
            | {"seconds": seconds.get(work.run_id, {}), "audit": _audited(lake, work).model_dump()}
            | (
                {"reason": find_run(lake, work.run_id).withheld_reason}
                if work.status in _STOPPED
                else {}
            )
            for work in night.work
        ]
        lost = [
            run.model_dump(exclude={"night_id"}) | {"seconds": _of_run(seconds, run)}
            for run in failed
        ]
        print(json.dumps(said | {"runs": runs, "failed": lost, "seconds": seconds.get("", {})}))
        return
    print(
        f"Night {night.night_id}, {night.started_at} to {night.finished_at or '... (it did not come to its end)'}"
    )
    if wall_s is not None:
        side_by_side = (
            "; stages of runs that went side by side overlap"
            if len(seconds.keys() - {""}) > 1
            else ""
        )
        print(f"took {wall_s:.1f} s, from its first stage to its last{side_by_side}")
    for one in night.budget:
        stopped = ", the night stopped at it" if one.is_met else ""
        print(
            f"budget: {one.cap}={one.allowed:.10g}: {one.text} ({one.spent / one.allowed:.1%}){stopped}"
        )
    print_result_rows(home, [work.run_id for work in night.work if work.status == "finished"])
    for work in night.work:
        if work.status != "failed":
            print(f"{plain_line(work.title)}: {work.status} (run {work.run_id[:12]})")
            told = withheld_lines(home, work.run_id) if work.status in _STOPPED else []
            line = audit_line(_audited(lake, work))
            _print_run([*told, *([line] if line else [])], work, seconds.get(work.run_id))
    paid = {work.run_id: work for work in night.work if work.status == "failed"}
    for run in failed:
        print(
            f"{plain_line(run.title)}: failed ({f'run {run.run_id[:12]}' if run.run_id else 'it could not be planned'})"
        )
        _print_run([f"failed: {run.reason}"], paid.get(run.run_id), _of_run(seconds, run))
    if "" in seconds:
        print(f"besides the runs: {_summed(seconds[''])}")


def _audited(lake: Lake, work: RunWork) -> AuditCounts:
    keys = {"benchmark": work.setting.partition(".")[0], "model": work.model, "run_id": work.run_id}
    return audit_counts(lake.read("forgery_audit", ForgeryAudit, **keys))


def _print_run(
    told: Iterable[str], work: RunWork | None, stages: Mapping[str, float] | None
) -> None:
    for reason in told:
        print(in_three_lines(f"  {reason}"))
    for line in work_lines(work) if work else ():
        print(f"  {line}")
    if stages:
        print(f"  time: {_summed(stages)}")


def _of_run(seconds: Mapping[str, Mapping[str, float]], run: FailedRun) -> Mapping[str, float]:
    """Stages of a failed run; those under no id are the night's own."""
    return seconds.get(run.run_id, {}) if run.run_id else {}


def wall_seconds(lake: Lake, night_id: str) -> float | None:
    """From the beginning of a night's first stage to the end of its last; None for a night that did not come to its end."""
    times = [
        (datetime.fromisoformat(t.started_at).timestamp(), t.seconds)
        for t in _times(lake, night_id)
    ]
    return round(max(at + s for at, s in times) - min(at for at, _ in times), 3) if times else None


def seconds_of(lake: Lake, night_id: str) -> Mapping[str, Mapping[str, float]]:
    """Run, or nothing for the night itself -> stage -> seconds. Nothing for a night that did not come to its end."""
    found: dict[str, dict[str, float]] = {}
    for time in _times(lake, night_id):
        stages = found.setdefault(time.run_id, {})
        stages[time.stage] = round(stages.get(time.stage, 0.0) + time.seconds, 3)
    return found


def _times(lake: Lake, night_id: str) -> list[StageTime]:
    kept = ("stage_times", "publication_times")
    return [time for table in kept for time in lake.read(table, StageTime, night_id=night_id)]


def _summed(stages: Mapping[str, float]) -> str:
    """The stages in their order, and all of them together."""
    return f"{sum(stages.values()):.1f} s ({', '.join(f'{plain_line(stage)} {s:.1f}' for stage, s in stages.items())})"


def withheld_lines(home: Home, run_id: str) -> list[str]:
    """Why a run is withheld, and the word by which it is published all the same, if any."""
    lake = Lake(home.lake)
    record = find_run(lake, run_id)
    word = released_because(lake, record)
    said = (
        [f"{record.status}: {plain_line(record.withheld_reason, 1000)}"]
        if record.withheld_reason
        else []
    )
    return [*said, f"released: {plain_line(word, 500)}"] if word is not None else said


def _find(lake: Lake, wanted: str | None) -> _Night:
    nights = {
        n.night_id: _Night(n.night_id, n.started_at, n.finished_at, n.work, n.budget)
        for n in lake.read("nights", NightRecord)
    }
    for run in lake.read("runs", RunRecord):
        if run.work is not None and run.night_id not in nights:
            nights[run.night_id] = _Night(run.night_id, run.started_at, None, ())
        if (
            run.work is not None
            and nights.get(run.night_id) is not None
            and nights[run.night_id].finished_at is None
        ):
            night = nights[run.night_id]
            nights[run.night_id] = _Night(
                night.night_id, min(night.started_at, run.started_at), None, (*night.work, run.work)
            )
    found = sorted(name for name in nights if name.startswith(wanted or ""))
    if not found or (wanted is not None and len(found) > 1):
        if not nights:
            raise UsageError(
                f"{lake.root} holds no night yet. `parley run` and `parley nightly` make one"
            )
        names = ", ".join((found or sorted(nights))[-8:])
        problem = "several nights begin with" if found else "no night"
        raise UsageError(
            f"{problem} {wanted!r} in {lake.root}; the latest are: {names}. Type more of an id"
        )
    return nights[found[-1]]
