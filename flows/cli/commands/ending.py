"""End of a command that evaluates: exit code, JSON lines, messages on stderr."""

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
    """Return the exit code of a night's reports, and print the runs that did not finish to stderr.

    Codes by precedence: 1 or 2, a run failed; 4, a budget cap left runs incomplete; 3, a run is
    withheld; 0, all runs finished.
    """
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
"""Exit code of a command if a run has an event that `--fail-on` names."""


def event_code(home: Home, reports: Sequence["RunReport"], fail_on: Sequence[str]) -> int:
    """Return 5 if a published run has one of these events, else 0, and print the events to stderr.

    Events come from the tables `comparisons` and `history`.
    """
    if not fail_on or not home.warehouse.exists():
        return 0
    from warehouse.connect import named_query

    run_ids = [report.run_id for report in reports if report.is_published]
    _, events = named_query(home.path, "events_of_runs", run_ids=run_ids, events=list(fail_on))
    for event, setting, model, metric, before, after in events:
        line = f"{event}: {setting} · {model}: {metric} {before:.3f} -> {after:.3f}"
        print(f"parley: {plain_line(line, 500)}", file=sys.stderr)
    return EVENT_CODE if events else 0


def print_budget_stop(reports: Sequence["RunReport"], spent: Sequence["CapSpent"]) -> None:
    """Print to stderr which budget caps were reached, and the command that resumes."""
    from schemas.night.budget import why_stopped

    n_cut = sum(report.status == "incomplete" for report in reports)
    if n_cut:
        reason = why_stopped([cap for cap in spent if cap.is_met])
        command = shlex.join(["parley", *sys.argv[1:]])
        print(
            f"parley: the budget stopped the command, {n_cut} of {len(reports)} runs are"
            f" incomplete: {reason}. All answers are stored, and none is paid for twice; resume"
            f" with: {command}",
            file=sys.stderr,
        )


def json_budget(spent: Sequence["CapSpent"]) -> dict[str, object]:
    """Return the fields of a `--json` line about the budget; an empty map without a budget."""
    return (
        {"budget": {cap.cap: {"allowed": cap.allowed, "spent": cap.spent} for cap in spent}}
        if spent
        else {}
    )


def json_line(report: "RunReport", night_id: str, home: Home) -> dict[str, object]:
    """Return the `--json` line of a run."""
    from flows.text.work import work_fields

    return {
        "run_id": report.run_id,
        "night_id": night_id,
        "benchmark": report.setting,
        "model": report.model,
        "status": report.status,
        "reason": report.reason,
        "episodes": report.episodes,
        "owed": report.pending,
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
