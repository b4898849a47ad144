"""Evaluation for the commands `run`, `nightly` and `demo`: estimate, play, publish, print, exit."""

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.commands.ending import (
    event_code,
    exit_code,
    json_budget,
    json_line,
    print_budget_stop,
)
from flows.cli.panels import COMPARISON, EXECUTION
from tasks.storage.home import Home

if TYPE_CHECKING:
    from flows.night.reporting.destinations import Notify
    from flows.site.target import SiteTarget
    from schemas.night.budget import Budget
    from tasks.planning.request import EvaluationRequest

Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one line of JSON for each run. `results` holds every metric with interval and"
        " n.",
        rich_help_panel=EXECUTION,
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
    typer.Option(
        help="Exit with code 5 if a run of this command has this event. Repeatable.",
        rich_help_panel=COMPARISON,
    ),
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
        runs_at_once: runs that play concurrently. None: one after another.
        fail_on: events of the runs that end the command with exit code 5.
        telemetry: base URL of the OpenTelemetry collector. None: the one in the environment, if
            any.
    """
    print_note = partial(print, file=sys.stderr if json_output else sys.stdout)
    if dry_run:
        from flows.night.preflight.absent_engine import plannable_without_vllm

        requests = plannable_without_vllm(requests, print_note)
    if budget:
        from flows.night.subsample import subsampled

        requests, note = subsampled(home, requests, budget, keep=not dry_run)
        if note:
            print_note(note)
    if dry_run:
        from flows.text.dry_run import show_dry_run

        show_dry_run(home, requests, budget, json_output=json_output)
        return
    from flows.night.invocation import run_night
    from flows.night.reporting.progress import board_for_terminal

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
    from flows.text.results import json_results, print_results

    if json_output:
        results = json_results(
            home, [report.run_id for report in outcome.reports if report.is_published]
        )
        for report in outcome.reports:
            line = json_line(report, outcome.night_id, home) | {
                "results": results.get(report.run_id)
            }
            print(json.dumps(line | json_budget(outcome.spent)))
    else:
        print_results(home, outcome.reports, next_steps=next_steps)
    print_budget_stop(outcome.reports, outcome.spent)
    raise typer.Exit(exit_code(outcome.reports) or event_code(home, outcome.reports, fail_on))
