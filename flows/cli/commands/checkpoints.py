"""Command: checkpoints, what the sources of a night hold, what it owes them and what that will cost."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tasks.storage.home import find_home

if TYPE_CHECKING:
    from flows.night.checkpoints import CheckpointPlan, Owed
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
    rows = _rows(plan)
    if json_output:
        print(json.dumps(rows))
        return
    from flows.night.before.dry_run import CHARACTERS_PER_TOKEN, TOKENS_PER_ANSWER
    from flows.text.results import print_rows

    judged = ("judge calls",) if any(row["judge_calls"] for row in rows) else ()
    counted = ("runs", "episodes", "calls", *judged, "input tokens", "output tokens")
    columns = ("checkpoint", "step", "state", *counted, "USD", "why")
    print_rows("", columns, [tuple(row[column.replace(" ", "_").lower()] for column in columns) for row in rows])
    for one in plan.sighting.unread:
        print(f"source {one.source.place} was not read: {one.reason}")
    if not rows:
        print("No checkpoint was found" if settings.sources else f"{config} names no `sources` of checkpoints")
    elif plan.owed:
        print(
            f"Tokens assume {CHARACTERS_PER_TOKEN} characters a token and {TOKENS_PER_ANSWER} tokens an answer (or max_tokens)."
        )


def _rows(plan: "CheckpointPlan") -> list[dict[str, Any]]:
    owed = {one.found.digest: one for one in plan.owed}
    return [_row(found, owed.get(found.digest) if found.is_due else None) for found in plan.sighting.found]


def _row(found: "Found", owed: "Owed | None") -> dict[str, Any]:
    return {
        "checkpoint": found.name if found.names_weights else found.path,
        "family": found.family,
        "step": found.step,
        "state": _state(found, owed),
        **_costs(owed),
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
    tried = "a run of it failed or was withheld; `parley report` says why" if owed is not None and owed.is_left_behind else ""
    return found.lacks or tried


def _costs(owed: "Owed | None") -> dict[str, Any]:
    """Estimates of all runs together, tokens of all roles. USD is None where no price of one is known."""
    from flows.night.before.dry_run import estimate

    estimates = [estimate(plan) for plan in owed.plans] if owed else []
    prices = [one.usd for one in estimates]
    known = [usd for usd in prices if usd is not None]
    return {
        "runs": len(estimates),
        "episodes": sum(one.owed for one in estimates),
        "calls": sum(one.calls + one.simulator_calls for one in estimates),
        "judge_calls": sum(one.judge_calls for one in estimates),
        "input_tokens": sum(one.input_tokens + one.simulator_input_tokens + one.judge_input_tokens for one in estimates),
        "output_tokens": sum(one.output_tokens + one.simulator_output_tokens + one.judge_output_tokens for one in estimates),
        "usd": sum(known) if known and len(known) == len(prices) else None,
    }
