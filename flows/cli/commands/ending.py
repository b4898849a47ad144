"""How a command that evaluates ends: its exit code, its lines of JSON, what it says on stderr."""

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flows.text.reasons import in_three_lines
from schemas.errors import BudgetSpent
from schemas.outside.display import plain_line
from tasks.storage.home import Home

if TYPE_CHECKING:
    from schemas.night.budget import CapSpent
    from tasks.planning.reporting.report import RunReport


def exit_code(reports: Sequence["RunReport"]) -> int:
    """Return 0 done, 1 or 2 a run failed, 4 a cap of the budget left runs incomplete, 3 a run is withheld. Say so on stderr."""
    for report in reports:
        if report.status != "finished":
            print(
                in_three_lines(f"parley: {report.title}: {report.status}: {report.reason}"),
                file=sys.stderr,
            )
    failed = [report.exit_code for report in reports if report.status == "failed"]
    if failed:
        return min(failed)
    if any(report.status == "incomplete" for report in reports):
        return BudgetSpent.exit_code
    return 3 if any(report.status == "withheld" for report in reports) else 0


EVENT_CODE = 5
"""Exit code of a command whose runs have an event that `--fail-on` names."""


def event_code(home: Home, reports: Sequence["RunReport"], fail_on: Sequence[str]) -> int:
    """Return 5 where a published run has one of these events in `comparisons` or `history`, else 0. Name the events on stderr."""
    if not fail_on or not home.warehouse.exists():
        return 0
    from warehouse.connect import named_query

    run_ids = [report.run_id for report in reports if report.is_published]
    _, found = named_query(home.path, "events_of_runs", run_ids=run_ids, events=list(fail_on))
    for event, setting, model, metric, before, after in found:
        line = f"{event}: {setting} · {model}: {metric} {before:.3f} -> {after:.3f}"
        print(f"parley: {plain_line(line, 500)}", file=sys.stderr)
    return EVENT_CODE if found else 0


def say_where_it_stopped(reports: Sequence["RunReport"], spent: Sequence["CapSpent"]) -> None:
    """On stderr: the caps that were met, and the command that goes on."""
    from schemas.night.budget import why_stopped

    n_cut = sum(report.status == "incomplete" for report in reports)
    if n_cut:
        said = why_stopped([one for one in spent if one.is_met])
        command = shlex.join(["parley", *sys.argv[1:]])
        print(
            f"parley: stopped at its budget, {n_cut} of {len(reports)} runs are incomplete: {said}. Answers are kept and"
            f" never paid for again; go on with: {command}",
            file=sys.stderr,
        )


def json_budget(spent: Sequence["CapSpent"]) -> dict[str, object]:
    """What `--json` adds to each line where there is a budget."""
    return (
        {"budget": {one.cap: {"allowed": one.allowed, "spent": one.spent} for one in spent}}
        if spent
        else {}
    )


def json_line(report: "RunReport", night_id: str, home: Home) -> dict[str, object]:
    """What `--json` prints of a run."""
    from flows.text.work import work_fields

    return {
        "run_id": report.run_id,
        "night_id": night_id,
        "benchmark": report.setting,
        "model": report.model,
        "status": report.status,
        "reason": report.reason,
        "episodes": report.episodes,
        "owed": report.owed,
        "model_calls": report.model_calls,
        "n_infra": report.n_infra,
        "n_unscored": report.n_unscored,
        "n_audited": report.audit.n_audited,
        "n_forged": report.audit.n_forged,
        "n_suspected": report.audit.n_suspected,
        "published": report.is_published,
        "warehouse": str(home.warehouse),
        **(work_fields(report.work) if report.work else {}),
    }
