"""Command: checkpoints, what the sources of a night hold, what it owes them and what that will cost."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tasks.storage.home import find_home

if TYPE_CHECKING:
    from flows.night.checkpoints import CheckpointPlan, Owed
    from flows.night.preflight.dry_run import Estimate
    from tasks.checkpoints.found import Found

Json = Annotated[bool, typer.Option("--json", help="Print one array of objects.")]


def add_to(app: typer.Typer) -> None:
    """Register this module's command."""
    app.command("checkpoints")(checkpoints)


def checkpoints(
    config: Annotated[Path, typer.Option(help="The night's configuration.")] = Path("nightly.yaml"),
    json_output: Json = False,
) -> None:
    """List a configuration's checkpoints, and what each is owed.

    Lists the newest first, and a checkpoint that the latest night tried in vain after all others. States: `tonight`, taken by the
    next night; `later`, taken by a night with fewer new checkpoints or by `parley nightly --backfill`; `waiting`, not complete
    or changed a moment ago; `copy`, the same model as another checkpoint; `done`, owed nothing.
    """
    from flows.night.checkpoints import CheckpointPlan
    from flows.night.config import read_config

    settings = read_config(config)
    plan = CheckpointPlan(find_home(settings.home), settings, config.absolute().parent)
    estimates = {one.found.digest: _estimates(one) for one in plan.owed}
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
    for one in plan.sighting.unread:
        print(f"source {one.source.place} was not read: {one.reason}")
    if not rows:
        print(
            "No checkpoint was found"
            if settings.sources
            else f"{config} names no `sources` of checkpoints"
        )
    elif plan.owed:
        from flows.text.dry_run import hours_lines, tokens_line

        of_all = [one for of_checkpoint in estimates.values() for one in of_checkpoint]
        for line in (tokens_line(of_all), *hours_lines(of_all)):
            print(line)


def _cell(row: dict[str, Any], column: str) -> Any:
    if column == "USD by the hour":
        return "unknown" if row["hours_unknown"] else row["usd_hourly"]
    return row[column.replace(" ", "_").lower()]


def _rows(
    plan: "CheckpointPlan", estimates: "Mapping[str, Sequence[Estimate]]"
) -> list[dict[str, Any]]:
    owed = {one.found.digest: one for one in plan.owed}
    return [
        _row(found, owed.get(found.digest), estimates.get(found.digest, ()))
        if found.is_due
        else _row(found, None, ())
        for found in plan.sighting.found
    ]


def _row(found: "Found", owed: "Owed | None", estimates: "Sequence[Estimate]") -> dict[str, Any]:
    return {
        "checkpoint": found.name if found.names_weights else found.path,
        "family": found.family,
        "step": found.step,
        "state": _state(found, owed),
        **_costs(estimates),
        "why": _why(found, owed),
        "digest": found.digest,
        "path": found.path,
    }


def _state(found: "Found", owed: "Owed | None") -> str:
    if found.lacks:
        return "waiting"
    if found.copy_of:
        return "copy"
    return "done" if owed is None else "tonight" if owed.tonight else "later"


def _why(found: "Found", owed: "Owed | None") -> str:
    if found.copy_of:
        return f"the same model as {found.copy_of}"
    tried = (
        "a run of it failed or was withheld; `parley report` says why"
        if owed is not None and owed.is_left_behind
        else ""
    )
    return found.lacks or tried


def _costs(estimates: "Sequence[Estimate]") -> dict[str, Any]:
    """Estimates of all runs together, tokens of all roles. A cost is None where that of one run is unknown."""
    unknown = dict.fromkeys(model for one in estimates for model in one.hours_unknown)
    return {
        "runs": len(estimates),
        "episodes": sum(one.owed for one in estimates),
        "calls": sum(one.calls + one.simulator_calls for one in estimates),
        "judge_calls": sum(one.judge_calls for one in estimates),
        "input_tokens": sum(
            one.input_tokens + one.simulator_input_tokens + one.judge_input_tokens
            for one in estimates
        ),
        "output_tokens": sum(
            one.output_tokens + one.simulator_output_tokens + one.judge_output_tokens
            for one in estimates
        ),
        "usd": _sum([one.usd for one in estimates]),
        "usd_hourly": None if unknown else _sum([one.usd_hourly for one in estimates]),
        "hours_unknown": list(unknown),
    }


def _sum(costs: list[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known and len(known) == len(costs) else None


def _estimates(owed: "Owed") -> "list[Estimate]":
    from flows.night.preflight.dry_run import estimate

    return [estimate(plan) for plan in owed.plans]
