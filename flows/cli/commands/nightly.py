"""Commands about nights: `parley nightly`, `parley demo` and `parley checkpoints`.

`nightly` evaluates a configuration file. `demo` is a small night run on a bundled sample.
`checkpoints` lists the checkpoints of a night's sources, with pending runs and their cost.
"""

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.commands.evaluation import DryRun, FailOn, Json, evaluate
from flows.cli.options import BudgetCaps, parse_budget
from tasks.benchmarks.registry import BENCHMARKS, FIRST
from tasks.storage.home import find_home

if TYPE_CHECKING:
    from flows.night.checkpoints import PendingCheckpoint
    from flows.night.preflight.dry_run import Estimate
    from tasks.checkpoints.source import SourceCheckpoint

ConfigFile = Annotated[Path, typer.Option(help="Configuration file of the night.")]
JsonRows = Annotated[bool, typer.Option("--json", help="Print one array of objects.")]


def nightly(
    config: ConfigFile = Path("nightly.yaml"),
    budget: BudgetCaps = None,
    backfill: Annotated[
        bool,
        typer.Option(
            "--backfill", help="Evaluate every checkpoint with pending work, and ignore `at_most`."
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


def demo(
    benchmark: Annotated[
        str | None,
        typer.Argument(
            help=f"Benchmark: one of {', '.join(BENCHMARKS.names())}. Default: {FIRST}."
        ),
    ] = None,
    json_output: Json = False,
) -> None:
    """Run a small night on a bundled sample.

    Evaluates a small real model and two control models, in minutes and without a network.
    """
    from flows.night.config import demo_requests

    evaluate(find_home(), demo_requests(benchmark), json_output, next_steps=True)


def checkpoints(config: ConfigFile = Path("nightly.yaml"), json_output: JsonRows = False) -> None:
    """List checkpoints with pending evaluations and estimated cost.

    Reads the `sources` of a night's configuration. The newest checkpoint comes first; a checkpoint
    whose evaluation failed last night comes last. States: `tonight`: the next night evaluates it.
    `later`: `at_most` postpones it; `parley nightly --backfill` evaluates it. `waiting`: its files
    are incomplete or changed a moment ago. `copy`: its files equal those of another checkpoint.
    `done`: nothing is pending.
    """
    from flows.night.checkpoints import CheckpointPlan
    from flows.night.config import read_config
    from flows.night.preflight.dry_run import estimate

    settings = read_config(config)
    plan = CheckpointPlan(find_home(settings.home), settings, config.absolute().parent)
    pending = {entry.checkpoint.digest: entry for entry in plan.pending}
    estimates = {
        digest: [estimate(run) for run in entry.plans] for digest, entry in pending.items()
    }
    rows = [
        _row(checkpoint, pending.get(checkpoint.digest), estimates.get(checkpoint.digest, ()))
        if checkpoint.is_due
        else _row(checkpoint, None, ())
        for checkpoint in plan.scan.checkpoints
    ]
    if json_output:
        print(json.dumps(rows))
        return
    from flows.text.records import print_rows

    judged = ("judge calls",) if any(row["judge_calls"] for row in rows) else ()
    hourly = (
        ("USD by the hour",)
        if any(row["hours_unknown"] or row["usd_hourly"] is not None for row in rows)
        else ()
    )
    counted = ("runs", "episodes", "calls", *judged, "input tokens", "output tokens")
    columns = ("checkpoint", "step", "state", *counted, "USD", *hourly, "why")
    print_rows("", columns, [tuple(_cell(row, column) for column in columns) for row in rows])
    for failure in plan.scan.unread:
        print(f"source {failure.source.place} could not be read: {failure.reason}")
    if not rows:
        print(
            "The configured `sources` hold no checkpoint."
            if settings.sources
            else f"{config} has no `sources` of checkpoints. `parley help checkpoints` explains"
            " them."
        )
    elif plan.pending:
        from flows.text.dry_run import hours_lines, tokens_line

        flat = [estimate for group in estimates.values() for estimate in group]
        for line in (tokens_line(flat), *hours_lines(flat)):
            print(line)


def _cell(row: dict[str, Any], column: str) -> Any:
    if column == "USD by the hour":
        return "unknown" if row["hours_unknown"] else row["usd_hourly"]
    return row[column.replace(" ", "_").lower()]


def _row(
    checkpoint: "SourceCheckpoint",
    pending: "PendingCheckpoint | None",
    estimates: "Sequence[Estimate]",
) -> dict[str, Any]:
    return {
        "checkpoint": checkpoint.name if checkpoint.names_weights else checkpoint.path,
        "family": checkpoint.family,
        "step": checkpoint.step,
        "state": _state(checkpoint, pending),
        **_costs(estimates),
        "why": _why(checkpoint, pending),
        "digest": checkpoint.digest,
        "path": checkpoint.path,
    }


def _state(checkpoint: "SourceCheckpoint", pending: "PendingCheckpoint | None") -> str:
    if checkpoint.lacks:
        return "waiting"
    if checkpoint.copy_of:
        return "copy"
    return "done" if pending is None else "tonight" if pending.tonight else "later"


def _why(checkpoint: "SourceCheckpoint", pending: "PendingCheckpoint | None") -> str:
    if checkpoint.copy_of:
        return f"the same model as {checkpoint.copy_of}"
    failure = (
        "a run of this checkpoint failed or was withheld; `parley report` says why"
        if pending is not None and pending.is_left_behind
        else ""
    )
    return checkpoint.lacks or failure


def _costs(estimates: "Sequence[Estimate]") -> dict[str, Any]:
    """Return the sums over all runs and roles. A cost is None if one run's cost is unknown."""
    unknown = dict.fromkeys(model for run in estimates for model in run.hours_unknown)
    return {
        "runs": len(estimates),
        "episodes": sum(run.pending for run in estimates),
        "calls": sum(run.calls + run.simulator_calls for run in estimates),
        "judge_calls": sum(run.judge_calls for run in estimates),
        "input_tokens": sum(
            run.input_tokens + run.simulator_input_tokens + run.judge_input_tokens
            for run in estimates
        ),
        "output_tokens": sum(
            run.output_tokens + run.simulator_output_tokens + run.judge_output_tokens
            for run in estimates
        ),
        "usd": _sum([run.usd for run in estimates]),
        "usd_hourly": None if unknown else _sum([run.usd_hourly for run in estimates]),
        "hours_unknown": list(unknown),
    }


def _sum(costs: list[float | None]) -> float | None:
    prices = [cost for cost in costs if cost is not None]
    return sum(prices) if prices and len(prices) == len(costs) else None
