"""`parley demo`: a small night run on a bundled sample."""

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
