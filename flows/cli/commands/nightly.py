"""`parley nightly`: evaluation of a configuration file."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.commands.evaluation import DryRun, FailOn, Json, evaluate
from flows.cli.commands.key_values import BudgetCaps, parse_budget
from tasks.storage.home import find_home


def add_to(app: typer.Typer) -> None:
    """Register this module's command."""
    app.command("nightly")(nightly)


def nightly(
    config: Annotated[Path, typer.Option(help="Configuration file of the night.")] = Path(
        "nightly.yaml"
    ),
    budget: BudgetCaps = None,
    backfill: Annotated[
        bool,
        typer.Option(
            "--backfill",
            help="Evaluate every checkpoint with pending work, and ignore `at_most`.",
        ),
    ] = False,
    fail_on: FailOn = None,
    dry_run: DryRun = False,
    json_output: Json = False,
) -> None:
    """Evaluate the models and new checkpoints of a configuration.

    Each model plays every benchmark in the file. Results are published once, at the end. The night
    first runs known attacks and known good programs in the sandbox. If one of them has the wrong
    outcome, the night stops with exit code 3.
    """
    from flows.night.checkpoints import night_requests
    from flows.night.config import read_config

    settings = read_config(config)
    caps = parse_budget(budget or [], settings.budget)
    home = find_home(settings.home)
    print_note = partial(print, file=sys.stderr)
    requests = night_requests(
        home, settings, config.absolute().parent, print_note, keep=not dry_run, backfill=backfill
    )
    if not requests:
        print("No checkpoint has pending evaluations. Nothing was started.", file=sys.stderr)
        return
    evaluate(
        home,
        requests,
        json_output,
        dry_run=dry_run,
        with_canary=True,
        notify=settings.notify,
        site=settings.site_at(config.absolute().parent),
        budget=caps,
        runs_at_once=settings.runs_at_once,
        telemetry=settings.telemetry,
        fail_on=fail_on or (),
    )
