"""The command that shows Parley at work on a bundled sample: demo."""

from typing import Annotated

import typer

from flows.cli.commands.evaluation import Json, evaluate
from tasks.benchmarks.registry import BENCHMARKS, FIRST
from tasks.storage.home import find_home


def add_to(app: typer.Typer) -> None:
    """Register this module's command."""
    app.command("demo")(demo)


def demo(
    benchmark: Annotated[
        str | None,
        typer.Argument(
            help=f"One of {', '.join(BENCHMARKS.names())}; {FIRST} where none is named."
        ),
    ] = None,
    json_output: Json = False,
) -> None:
    """Run the nightly flow on a bundled sample. Plays a small real model between two controls in minutes, offline."""
    from flows.night.config import demo_requests

    evaluate(find_home(), demo_requests(benchmark), json_output, next_steps=True)
