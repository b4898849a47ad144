"""The command that makes data from finished runs: build."""

import json
from pathlib import Path
from typing import Annotated

import typer

from tasks.storage.home import find_home

Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


def add_to(app: typer.Typer) -> None:
    """Register this module's command."""
    app.command("build")(build)


def build(
    what: Annotated[
        str,
        typer.Argument(metavar="BENCHMARK-WHAT", help="A benchmark, `-` and a kind of files; a wrong name lists all."),
    ],
    run: Annotated[list[str] | None, typer.Option(help="A run's id, or its beginning; may be repeated.")] = None,
    model: Annotated[str | None, typer.Option(help="A model's name: use its latest finished run of each setting.")] = None,
    out: Annotated[Path, typer.Option(help="The folder to make.")] = Path("logs"),
    force: Annotated[bool, typer.Option("--force", help="Replace the files of an earlier build there.")] = False,
    json_output: Json = False,
) -> None:
    """Make files from finished runs, in the authors' format. Other runs and other tools read them."""
    from flows.cli.building import build as build_files

    told = build_files(find_home(), what, run or (), model, out, replace=force)
    if json_output:
        print(json.dumps({"out": str(out), "built": told}))
        return
    for line in told:
        print(line)
    print(f"in {out}")
