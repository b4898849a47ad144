"""A night, its results, and its reused and paid work: at its end, and for `parley report`."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from flows.text.comparison import event_text
from flows.text.results import compared_rows, print_result_rows
from flows.text.work import audit_line, work_lines
from schemas.audit import AuditCounts, ForgeryAudit, audit_counts
from schemas.errors import UsageError
from schemas.lake.records import NightRecord, RunRecord
from schemas.night.work import FailedRun, RunWork, StageTime
from schemas.outside.display import in_three_lines, plain_line
from tasks.planning.reporting.publishing import released_because
from tasks.planning.why_rerun import find_run
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake

if TYPE_CHECKING:
    from tasks.planning.reporting.report import RunReport


def print_results(home: Home, reports: Sequence["RunReport"], *, next_steps: bool = False) -> None:
    """Print each run's work, the result table, and the path of the warehouse."""
    for report in reports:
        if report.run_id:
            print(_summary(report))
        if audited := audit_line(report.audit):
            print(f"  {audited}")
        if report.work:
            for line in work_lines(report.work):
                print(f"  {line}")
    published = [report.run_id for report in reports if report.is_published]
    print_result_rows(home, published)
    _print_events(compared_rows(home, published))
    if home.warehouse.exists():
        print(f"Warehouse: {home.warehouse}")
    if next_steps:
        print("Next:")
        for command in _next_commands(reports):
            print(f"  {command}")


def _print_events(rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        if row["event"]:
            pair = f"{row['setting']} · {row['model']} against its {row['against']}"
            print(plain_line(f"{pair}, {event_text(row)}", 500))


WARN_FROM_SHARE = 0.05
"""Minimum share of empty answers for which the summary of a run contains a warning."""


def _summary(report: "RunReport") -> str:
    n_paid = report.work.n_paid if report.work else 0
    parts = [
        f"{plain_line(report.title)}: {report.status}, {report.episodes} episodes, {n_paid} model"
        " calls"
    ]
    parts += [f"{n} {name}" for n, name in _counts(report) if n]
    if record := report.record:
        if record.n_empty >= WARN_FROM_SHARE * report.n_answers > 0:
            share = record.n_empty / report.n_answers
            parts.append(f"WARNING: {share:.0%} of the answers are empty")
        parts += [
            f"requests to the {role}'s endpoint adapted: {changes}"
            for role, changes in record.adapted
        ]
        if record.n_tampered:
            parts.append(
                f"{record.n_tampered} tests tampered with (reason = 'tampering' in test_verdicts)"
            )
    return ", ".join(parts) + f" (run {report.run_id[:12]})"


def _counts(report: "RunReport") -> Iterator[tuple[int, str]]:
    record = report.record
    yield report.pending, "pending"
    if record:
        yield record.n_infra, "infra"
        yield record.n_unscored, "unscored"
    yield report.n_drift_calls, "requests to measure judge drift"
    yield report.n_quarantined, "data rows in quarantine"
    if record:
        yield record.n_truncated, "answers cut off at max_tokens"
        yield record.n_refused, "refused"
        yield report.n_too_long, "dialogues cut short by the model's context (context_length)"
        yield record.n_empty, "empty answers"
        yield record.n_cut_off, "of them cut off while thinking"
        yield record.n_unreadable, "answers without a readable program"


def _next_commands(reports: Sequence["RunReport"]) -> tuple[str, ...]:
    first = next(
        (report for report in reports if report.run_id and report.status != "failed"), None
    )
    run, setting = (first.run_id[:12], first.setting) if first else ("RUN", "BENCHMARK.SETTING")
    parley = "parley" if shutil.which("parley") else shlex.quote(os.path.relpath(sys.argv[0]))
    return (
        f'{parley} show "$({parley} list episodes --run {run} --first)"',
        f'{parley} sql "SELECT model, turn, instruction_id, outcome FROM test_verdicts"',
        f"{parley} run {shlex.quote(setting)} --dataset-version sample --model"
        " openai:MODEL@http://127.0.0.1:8000/v1",
    )


_STOPPED = ("withheld", "incomplete")
"""Statuses of runs for which a reason is recorded."""


def show_night(home: Home, prefix: str | None, *, json_output: bool) -> None:
    """Print a night.

    Args:
        home: Parley's home.
        prefix: the night's id, or its first characters. None: the latest night.
        json_output: print JSON.

    Raises:
        UsageError: no night matches, or several do.
    """
    lake = Lake(home.lake)
    night = _find(lake, prefix)
    if json_output:
        print(json.dumps(_facts(lake, night)))
    else:
        _print_night(home, lake, night)


def _facts(lake: Lake, night: NightRecord) -> dict[str, Any]:
    """Return what `parley report --json` prints about a night."""
    seconds, span = seconds_of(lake, night.night_id), _span(lake, night.night_id)
    runs: list[dict[str, Any]] = []
    for work in night.work:
        audit = _audited(lake, work).model_dump()
        runs.append(work.model_dump() | {"seconds": seconds.get(work.run_id, {}), "audit": audit})
        if work.status in _STOPPED:
            runs[-1]["reason"] = find_run(lake, work.run_id).withheld_reason
    return {
        "night_id": night.night_id,
        "started_at": night.started_at,
        "finished_at": night.finished_at or None,
        "wall_seconds": round(span[1] - span[0], 3) if span else None,
        "budget": [cap.model_dump() for cap in night.budget],
        "runs": runs,
        "failed": [
            run.model_dump(exclude={"night_id"}) | {"seconds": _seconds_of(seconds, run)}
            for run in _failed(lake, night)
        ],
        "seconds": seconds.get("", {}),
    }


def _failed(lake: Lake, night: NightRecord) -> Sequence[FailedRun]:
    return lake.read("failed_runs", FailedRun, night_id=night.night_id)


def _print_night(home: Home, lake: Lake, night: NightRecord) -> None:
    seconds, span = seconds_of(lake, night.night_id), _span(lake, night.night_id)
    # A night's record counts from its first run, which begins when server and workers run.
    times = [datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds") for at in span]
    start, end = times or (night.started_at, night.finished_at)
    print(f"Night {night.night_id}, {start} to {end or '... (running or interrupted)'}")
    if span:
        overlap = "; stages of concurrent runs overlap" if len(seconds.keys() - {""}) > 1 else ""
        print(f"took {span[1] - span[0]:.1f} s, from its first stage to its last{overlap}")
    for cap in night.budget:
        stopped = ", which stopped the night" if cap.is_met else ""
        share = f"{cap.spent / cap.allowed:.1%}"
        print(f"budget: {cap.cap}={cap.allowed:.10g}: {cap.text} ({share}){stopped}")
    print_result_rows(home, [work.run_id for work in night.work if work.status == "finished"])
    for work in night.work:
        if work.status != "failed":
            print(f"{plain_line(work.title)}: {work.status} (run {work.run_id[:12]})")
            reasons = withheld_lines(home, work.run_id) if work.status in _STOPPED else []
            line = audit_line(_audited(lake, work))
            _print_run([*reasons, *([line] if line else [])], work, seconds.get(work.run_id))
    paid = {work.run_id: work for work in night.work if work.status == "failed"}
    for run in _failed(lake, night):
        name = f"run {run.run_id[:12]}" if run.run_id else "could not be planned"
        print(f"{plain_line(run.title)}: failed ({name})")
        _print_run([f"failed: {run.reason}"], paid.get(run.run_id), _seconds_of(seconds, run))
    if "" in seconds:
        print(f"not part of any run: {_summed(seconds[''])}")


def _audited(lake: Lake, work: RunWork) -> AuditCounts:
    keys = {"benchmark": work.setting.partition(".")[0], "model": work.model, "run_id": work.run_id}
    return audit_counts(lake.read("forgery_audit", ForgeryAudit, **keys))


def _print_run(
    reasons: Iterable[str], work: RunWork | None, stages: Mapping[str, float] | None
) -> None:
    for reason in reasons:
        print(in_three_lines(f"  {reason}"))
    for line in work_lines(work) if work else ():
        print(f"  {line}")
    if stages:
        print(f"  time: {_summed(stages)}")


def _seconds_of(seconds: Mapping[str, Mapping[str, float]], run: FailedRun) -> Mapping[str, float]:
    """Return the seconds of a failed run's stages; none for a run that could not be planned."""
    return seconds.get(run.run_id, {}) if run.run_id else {}


def _span(lake: Lake, night_id: str) -> tuple[float, float] | tuple[()]:
    """Return start of a night's first stage and end of its last; nothing if it has not ended."""
    times = [
        (datetime.fromisoformat(t.started_at).timestamp(), t.seconds)
        for t in _times(lake, night_id)
    ]
    return (min(at for at, _ in times), max(at + s for at, s in times)) if times else ()


def seconds_of(lake: Lake, night_id: str) -> Mapping[str, Mapping[str, float]]:
    """Return a map from run to stage to seconds. The empty run id stands for the night itself.

    The map is empty if the night runs or was interrupted.
    """
    by_run: dict[str, dict[str, float]] = {}
    for time in _times(lake, night_id):
        stages = by_run.setdefault(time.run_id, {})
        stages[time.stage] = round(stages.get(time.stage, 0.0) + time.seconds, 3)
    return by_run


def _times(lake: Lake, night_id: str) -> list[StageTime]:
    tables = ("stage_times", "publication_times")
    return [time for table in tables for time in lake.read(table, StageTime, night_id=night_id)]


def _summed(stages: Mapping[str, float]) -> str:
    """Return a text with the total seconds, then the seconds of each stage in order."""
    parts = ", ".join(f"{plain_line(stage)} {seconds:.1f}" for stage, seconds in stages.items())
    return f"{sum(stages.values()):.1f} s ({parts})"


def withheld_lines(home: Home, run_id: str) -> list[str]:
    """Return lines that say why a run is withheld and, if it was released, why."""
    lake = Lake(home.lake)
    record = find_run(lake, run_id)
    release = released_because(lake, record)
    lines: list[str] = []
    if record.withheld_reason:
        lines.append(f"{record.status}: {plain_line(record.withheld_reason, 1000)}")
    if release is not None:
        lines.append(f"released: {plain_line(release, 500)}")
    return lines


def _find(lake: Lake, prefix: str | None) -> NightRecord:
    """Return a night. One that runs or was interrupted has no record: its runs tell of it."""
    nights = {night.night_id: night for night in lake.read("nights", NightRecord)}
    for run in lake.read("runs", RunRecord):
        night = nights.get(run.night_id)
        if run.work is not None and (night is None or not night.finished_at):
            nights[run.night_id] = NightRecord(
                night_id=run.night_id,
                started_at=min(night.started_at, run.started_at) if night else run.started_at,
                finished_at="",
                run_ids=(),
                n_published=0,
                n_withheld=0,
                work=(*(night.work if night else ()), run.work),
            )
    matches = sorted(name for name in nights if name.startswith(prefix or ""))
    if not matches or (prefix is not None and len(matches) > 1):
        if not nights:
            raise UsageError(
                f"{lake.root} holds no night yet. `parley run` and `parley nightly` create one"
            )
        names = ", ".join((matches or sorted(nights))[-8:])
        problem = "several nights begin" if matches else "no night begins"
        raise UsageError(
            f"{problem} with {prefix!r} in {lake.root}. Type more characters of one of: {names}"
        )
    return nights[matches[-1]]
