"""Commands that bring data in and out: stage, import, export."""

import json
from pathlib import Path
from typing import Annotated

import typer

from schemas.errors import UsageError
from tasks.benchmarks.registry import names
from tasks.storage.home import find_home

Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


def add_to(app: typer.Typer) -> None:
    """Register this module's commands."""
    app.command("stage")(stage)
    app.command("import")(import_recording)
    app.command("export")(export)


def stage(
    benchmark: Annotated[str, typer.Argument(help=f"One of {', '.join(names())}.")],
    data: Annotated[Path, typer.Option(help="File or folder of raw data, as the benchmark's authors publish it.")],
    dataset_version: Annotated[str | None, typer.Option(help="Version of this data.")] = None,
    json_output: Json = False,
) -> None:
    """Read raw benchmark data into the lake. Bad rows go to quarantine with file, line and reason; the others are staged."""
    from flows.stage_benchmarks import stage_dataset

    staged, version, digest = stage_dataset(benchmark, data, dataset_version, None)
    counts = {"rows": staged.n_input, "staged": len(staged.problems), "quarantined": len(staged.quarantined)}
    if json_output:
        print(json.dumps({"benchmark": benchmark, "dataset_version": version, "dataset_digest": digest, **counts}))
        return
    print(f"{benchmark} {version}: {counts['staged']} of {counts['rows']} rows staged, {counts['quarantined']} in quarantine")
    if staged.quarantined:
        from flows.text.results import print_rows

        rows = [(q.source_file, q.source_line, q.reason, q.detail) for q in staged.quarantined[:20]]
        print_rows("Quarantine (the first 20)", ("file", "line", "reason", "detail"), rows)


def import_recording(
    benchmark: Annotated[str, typer.Argument(help=f"One of {', '.join(names())}.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of published runs.")],
    model: Annotated[str, typer.Option(help="The model's name in that folder.")],
    out: Annotated[Path, typer.Option(help="Recording to write: JSONL, packed if the name ends in .gz.")],
) -> None:
    """Turn published answers of others into a recording. Run it with `--model recorded:FILE`.

    Stages the answers' raw data, too, where it lies beside them.
    """
    from tasks.benchmarks import registry
    from tasks.language.recorded_model import write_recording

    published = registry.load(benchmark).recordings
    if published is None:
        raise UsageError(f"benchmark {benchmark!r} has no published runs that could be imported")
    n_lines = write_recording(out, published.answers(folder, model))
    print(f"{out}: {n_lines} answers of {model}")
    beside = published.raw_data(folder)
    if beside is not None:
        data, dataset_version = beside
        stage(benchmark, data, dataset_version)


def export(
    what: Annotated[
        str,
        typer.Argument(
            help="`recording` writes a run's answers, to be run again as `--model recorded:FILE`. A benchmark's name, `-` and a"
            " table's name write a table of published results; a wrong name lists all."
        ),
    ],
    out: Annotated[Path, typer.Option(help="File to write. A table ends in .csv, .json or .jsonl; a recording may end in .gz.")],
    run: Annotated[
        list[str] | None,
        typer.Option(help="A run's id, or its beginning. For a table it may be repeated; without it, the newest runs count."),
    ] = None,
) -> None:
    """Write a run's answers or a table of results to a file."""
    from flows.cli.exporting import RECORDING, export_recording, export_table

    if what != RECORDING:
        print(f"{out}: {export_table(find_home(), what, run or (), out)} rows")
        return
    if run is None or len(run) != 1:
        raise UsageError("a recording is of one run: name it by --run RUN. See `parley list runs`")
    print(f"{out}: {export_recording(find_home(), run[0], out)} answers")
