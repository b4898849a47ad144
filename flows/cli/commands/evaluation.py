"""Evaluation for `run`, `nightly` and `demo`: estimate, play, publish, print, exit code."""

import json
import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import comparison_option, execution_option
from schemas.errors import BudgetSpent, ParleyError
from schemas.outside.display import in_three_lines, plain_line
from tasks.storage.home import Home

if TYPE_CHECKING:
    from flows.night.reporting.destinations import Notify
    from flows.site.target import SiteTarget
    from schemas.night.budget import Budget, CapSpent
    from tasks.planning.plan import RunPlan
    from tasks.planning.reporting.report import RunReport
    from tasks.planning.request import EvaluationRequest


def exit_code(reports: Sequence["RunReport"]) -> int:
    """Return the exit code of a night's reports, and print the runs that did not finish to stderr.

    Codes by precedence: 1, a run failed; 4, a budget cap left runs incomplete; 3, a run is
    withheld; 0, all runs finished.
    """
    for report in reports:
        if report.status != "finished":
            print(
                in_three_lines(f"parley: {report.title}: {report.status}: {report.reason}"),
                file=sys.stderr,
            )
    if any(report.status == "failed" for report in reports):
        return ParleyError.exit_code
    if any(report.status == "incomplete" for report in reports):
        return BudgetSpent.exit_code
    return 3 if any(report.status == "withheld" for report in reports) else 0


EVENT_CODE = 5
"""Exit code of a command if a run has an event that `--fail-on` names."""


def event_code(
    home: Home, reports: Sequence["RunReport"], fail_on: Sequence[str], *, has_baseline: bool
) -> int:
    """Return 5 if a published run has one of these events, and print the events to stderr.

    Events come from the tables `comparisons` and `history`. Without events, return 1 if a named
    baseline is unknown, since it could not be checked; else 0.

    Args:
        has_baseline: a request names a baseline. Missing comparisons are printed to stderr, too.
    """
    if not (fail_on or has_baseline) or not home.warehouse.exists():
        return 0
    from warehouse.connect import named_query

    run_ids = [report.run_id for report in reports if report.is_published]
    is_unknown = has_baseline and _print_missing_baselines(home, run_ids)
    _, events = named_query(home.path, "events_of_runs", run_ids=run_ids, events=list(fail_on))
    for event, setting, model, metric, before, after in events:
        line = f"{event}: {setting} · {model}: {metric} {before:.3f} -> {after:.3f}"
        print(f"parley: {plain_line(line, 500)}", file=sys.stderr)
    if events:
        return EVENT_CODE
    return ParleyError.exit_code if fail_on and is_unknown else 0


def _print_missing_baselines(home: Home, run_ids: Sequence[str]) -> bool:
    """Print baselines that runs were not compared with. Return True if one of them is unknown."""
    from warehouse.comparison.named_pairs import missing_baselines

    missing = missing_baselines(home.path, run_ids)
    for baseline, titles, is_known in missing:
        why = "none of its published runs has this setting with equal data and options"
        _print_not_compared(baseline, titles, why if is_known else _UNKNOWN)
    return not all(is_known for _, _, is_known in missing)


_UNKNOWN = "no published run in this home has this name. `parley list runs` shows all"


def _print_not_compared(baseline: str, titles: Sequence[str], why: str) -> None:
    line = f"not compared with baseline {baseline!r}: {', '.join(titles)}. The reason: {why}"
    print(f"parley: {plain_line(line, 500)}", file=sys.stderr)


def _print_unknown_baselines(plans: Sequence["RunPlan"]) -> bool:
    """Print baselines that name neither a finished run nor one of these plans.

    Return True if there are any.
    """
    from tasks.planning.decisions.baseline import unknown_baselines

    unknown = unknown_baselines(plans)
    for baseline, titles in unknown.items():
        _print_not_compared(baseline, titles, _UNKNOWN)
    return bool(unknown)


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
        "model_calls": report.work.model_calls if report.work else 0,
        "n_infra": report.record.n_infra if report.record else 0,
        "n_unscored": report.record.n_unscored if report.record else 0,
        "n_audited": report.audit.n_audited,
        "n_forged": report.audit.n_forged,
        "n_suspected": report.audit.n_suspected,
        "published": report.is_published,
        "warehouse": str(home.warehouse),
        **(work_fields(report.work) if report.work else {}),
    }


Json = Annotated[
    bool,
    execution_option(
        "--json",
        help="Print one line of JSON for each run. `results` holds every metric with interval and"
        " n.",
    ),
]


class FailEvent(StrEnum):
    """Events for which a command can end with exit code 5."""

    REGRESSION = "regression"
    JUDGE_MOVED = "judge_moved"
    TREND = "trend"
    CHANGE_POINT = "change_point"


FailOn = Annotated[
    list[FailEvent] | None,
    comparison_option(help="Exit with code 5 if a run of this command has this event. Repeatable."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print pending episodes and estimated cost. Start nothing."),
]


def evaluate(
    home: Home,
    requests: Sequence["EvaluationRequest"],
    json_output: bool,
    *,
    dry_run: bool = False,
    next_steps: bool = False,
    with_canary: bool = False,
    notify: "Notify | None" = None,
    site: "SiteTarget | None" = None,
    budget: "Budget | None" = None,
    runs_at_once: int | None = None,
    fail_on: Sequence[str] = (),
    telemetry: str | None = None,
) -> None:
    """Evaluate the requests and end the command with its exit code.

    Args:
        home: Parley's home.
        requests: the runs to evaluate.
        json_output: print JSON lines instead of tables.
        dry_run: print pending work and cost instead of evaluating.
        next_steps: print useful next commands.
        with_canary: run known attacks in the sandbox first.
        notify: destinations of notifications.
        site: target of the published site.
        budget: caps on cost, tokens or time.
        runs_at_once: maximum number of parallel runs. None: the default of the flow, 16.
        fail_on: events of the runs that end the command with exit code 5.
        telemetry: base URL of the OpenTelemetry collector. None: the URL in the environment, if
            any.
    """
    print_note = partial(print, file=sys.stderr if json_output else sys.stdout)
    if dry_run:
        from flows.night.preflight.dry_run import plannable_without_vllm

        requests = plannable_without_vllm(requests, print_note)
    if budget:
        from flows.night.subsample import subsampled

        requests, note = subsampled(home, requests, budget, keep=not dry_run)
        if note:
            print_note(note)
    if dry_run:
        from flows.text.dry_run import show_dry_run

        plans = show_dry_run(home, requests, budget, telemetry=telemetry, json_output=json_output)
        raise typer.Exit(
            ParleyError.exit_code if _print_unknown_baselines(plans) and fail_on else 0
        )
    from flows.night.invocation import run_night
    from flows.night.reporting.live_lines import board_for_terminal

    board = board_for_terminal(quiet=json_output)
    with board.live():
        outcome = run_night(
            home,
            requests,
            board,
            with_canary=with_canary,
            notify=notify,
            site=site,
            budget=budget,
            runs_at_once=runs_at_once,
            telemetry=telemetry,
        )
    from flows.text.night import print_results
    from flows.text.results import json_results

    if json_output:
        results = json_results(
            home, [report.run_id for report in outcome.reports if report.is_published]
        )
        budgets = {cap.cap: {"allowed": cap.allowed, "spent": cap.spent} for cap in outcome.spent}
        for report in outcome.reports:
            line = json_line(report, outcome.night_id, home)
            line["results"] = results.get(report.run_id)
            print(json.dumps(line | ({"budget": budgets} if budgets else {})))
    else:
        print_results(home, outcome.reports, next_steps=next_steps)
    print_budget_stop(outcome.reports, outcome.spent)
    has_baseline = any(
        request.comparison is not None and request.comparison.baseline is not None
        for request in requests
    )
    raise typer.Exit(
        exit_code(outcome.reports)
        or event_code(home, outcome.reports, fail_on, has_baseline=has_baseline)
    )
