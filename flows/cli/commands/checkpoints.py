"""`parley checkpoints`: checkpoints of a night's sources, with pending runs and their cost."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tasks.storage.home import find_home

if TYPE_CHECKING:
    from flows.night.checkpoints import CheckpointPlan, PendingCheckpoint
    from flows.night.preflight.dry_run import Estimate
    from tasks.checkpoints.source_checkpoint import SourceCheckpoint

Json = Annotated[bool, typer.Option("--json", help="Print one array of objects.")]


def add_to(app: typer.Typer) -> None:
    """Register this module's command."""
    app.command("checkpoints")(checkpoints)


def checkpoints(
    config: Annotated[Path, typer.Option(help="Configuration file of the night.")] = Path(
        "nightly.yaml"
    ),
    json_output: Json = False,
) -> None:
    """List checkpoints with pending evaluations and estimated cost.

    Reads the `sources` of a night's configuration. The newest checkpoint comes first; a checkpoint
    whose evaluation failed last night comes last. States: `tonight`: the next night evaluates it.
    `later`: `at_most` postpones it; `parley nightly --backfill` evaluates it. `waiting`: its files
    are incomplete or changed a moment ago. `copy`: its files equal those of another checkpoint.
    `done`: nothing is pending.
    """
    from flows.night.checkpoints import CheckpointPlan
    from flows.night.config import read_config

    settings = read_config(config)
    plan = CheckpointPlan(find_home(settings.home), settings, config.absolute().parent)
    estimates = {entry.checkpoint.digest: _estimates(entry) for entry in plan.pending}
    rows = _rows(plan, estimates)
    if json_output:
        print(json.dumps(rows))
        return
    from flows.text.results import print_rows

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


def _rows(
    plan: "CheckpointPlan", estimates: "Mapping[str, Sequence[Estimate]]"
) -> list[dict[str, Any]]:
    pending = {entry.checkpoint.digest: entry for entry in plan.pending}
    return [
        _row(checkpoint, pending.get(checkpoint.digest), estimates.get(checkpoint.digest, ()))
        if checkpoint.is_due
        else _row(checkpoint, None, ())
        for checkpoint in plan.scan.checkpoints
    ]


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


def _estimates(pending: "PendingCheckpoint") -> "list[Estimate]":
    from flows.night.preflight.dry_run import estimate

    return [estimate(plan) for plan in pending.plans]
