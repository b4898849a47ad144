"""Commands that bring data in and out: stage, import, export, site."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.commands.key_values import Resources, parse_resources
from schemas.errors import UnknownName, UsageError
from tasks.benchmarks.registry import BENCHMARKS, resolve_name
from tasks.storage.home import find_home

if TYPE_CHECKING:
    from schemas.problem import QuarantinedRow
    from tasks.judging.rating_scales import Scales

RATINGS = "ratings"
Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


def add_to(app: typer.Typer) -> None:
    """Register this module's commands."""
    app.command("stage")(stage)
    app.command("import")(import_data)
    app.command("export")(export)
    app.command("site")(site)


def stage(
    benchmark: Annotated[
        str,
        typer.Argument(
            help=f"One of {', '.join(BENCHMARKS.names())}; or the path of a benchmark's file."
        ),
    ],
    data: Annotated[
        Path,
        typer.Option(help="File or folder of raw data, as the benchmark's authors publish it."),
    ],
    dataset_version: Annotated[str | None, typer.Option(help="Version of the data.")] = None,
    resource: Resources = None,
    json_output: Json = False,
) -> None:
    """Read raw benchmark data into the lake. Bad rows go to quarantine with file, line and reason; the others are staged."""
    from flows.stage_benchmarks import stage_dataset

    benchmark = resolve_name(benchmark)
    staged, version, digest = stage_dataset(
        benchmark, data, dataset_version, None, parse_resources(resource or [], benchmark)
    )
    counts = {
        "rows": staged.n_input,
        "staged": len(staged.problems),
        "quarantined": len(staged.quarantined),
    }
    if json_output:
        print(
            json.dumps(
                {
                    "benchmark": benchmark,
                    "dataset_version": version,
                    "dataset_digest": digest,
                    **counts,
                }
            )
        )
        return
    print(
        f"{benchmark} {version}: {counts['staged']} of {counts['rows']} rows staged, {counts['quarantined']} in quarantine"
    )
    _print_quarantine(staged.quarantined)


def import_data(
    what: Annotated[
        str,
        typer.Argument(
            metavar="BENCHMARK|ratings",
            help=f"`{RATINGS}`, or one of {', '.join(BENCHMARKS.names())}.",
        ),
    ],
    source: Annotated[
        Path,
        typer.Argument(
            metavar="DIR|FILE", help="Folder of published runs; or a CSV file of ratings."
        ),
    ],
    model: Annotated[
        str | None, typer.Option(help="For published runs: the model's name in the folder.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="For published runs: the recording to write, in JSONL; packed if the name ends in .gz."
        ),
    ] = None,
    json_output: Json = False,
) -> int:
    """Bring in published answers of others, or people's ratings.

    `parley import BENCHMARK DIR --model NAME --out FILE` turns published answers into a recording: `parley run` takes it as
    `--model recorded:FILE`. Raw data beside the answers are staged, too. Published judgements of the answers go to
    `FILE.judgements.jsonl`: `parley run` takes them as `--judge recorded:FILE.judgements.jsonl`.

    `parley import ratings FILE.csv` reads rows of episode_id, turn (0: the whole dialogue), rubric, dimension, rater, value (a
    number or a word); the first line names these columns. A filled-in sheet is read, too: a build's, or one that `parley export
    rating-sheet` drew. A rating replaces an earlier one by the same rater. Rubrics and dimensions are those of the benchmark, and
    values lie on their scales; a benchmark without rubrics is rated by any. `parley agreement` shows how far raters agree. Exit
    code 3: some rows went to quarantine.
    """
    if what == RATINGS:
        if model is not None or out is not None:
            raise UsageError("ratings have no --model and no --out: parley import ratings FILE.csv")
        return _import_ratings(source, json_output)
    if model is None or out is None:
        raise UsageError(
            f"{what}: name model and recording: parley import {what} {source} --model NAME --out FILE"
        )
    _import_recording(what, source, model, out)
    return 0


def _import_recording(benchmark: str, folder: Path, model: str, out: Path) -> None:
    from tasks.benchmarks.registry import BENCHMARKS
    from tasks.language.recorded_model import write_recording

    published = BENCHMARKS.load(benchmark).recordings
    if published is None:
        raise UsageError(f"benchmark {benchmark!r} has no published runs that could be imported")
    n_lines = write_recording(out, published.answers(folder, model))
    print(f"{out}: {n_lines} answers of {model}")
    if published.judgements is not None:
        told = out.with_name(f"{out.name}.judgements.jsonl")
        print(
            f"{told}: {write_recording(told, published.judgements(folder, model))} judgements on them"
        )
    beside = published.raw_data(folder)
    if beside is not None:
        data, dataset_version = beside
        stage(benchmark, data, dataset_version)


def _import_ratings(source: Path, json_output: bool) -> int:
    from tasks.judging.ratings import import_ratings
    from tasks.planning.reporting.publishing import publish_to_warehouse

    home = find_home()
    done = import_ratings(home, source, _scales)
    publish_to_warehouse(home, ())
    file, n_kept = done.file, len(done.file.ratings)
    if json_output:
        counts = {
            "rows": file.n_input,
            "kept": n_kept,
            "changed": done.n_changed,
            "quarantined": len(file.quarantined),
        }
        print(json.dumps(counts))
    else:
        print(
            f"{source}: {n_kept} of {file.n_input} ratings kept, {done.n_changed} new or changed",
            end="",
        )
        print(f", {len(file.quarantined)} rows in quarantine" if file.quarantined else "")
        _print_quarantine(file.quarantined)
    return 3 if file.quarantined else 0


def _scales(benchmark: str) -> "Scales | None":
    """Return the scales of a benchmark's rubrics; None where it has none, or is not installed: people then rate by their own."""
    from tasks.benchmarks.registry import BENCHMARKS
    from tasks.judging.rating_scales import scales_of

    try:
        judging = BENCHMARKS.load(benchmark).judging
    except UnknownName:
        return None
    return None if judging is None else scales_of(judging.rubrics)


def _print_quarantine(quarantined: Sequence["QuarantinedRow"]) -> None:
    if quarantined:
        from flows.text.results import print_rows

        rows = [(q.source_file, q.source_line, q.reason, q.detail) for q in quarantined[:20]]
        print_rows("Quarantine (the first 20)", ("file", "line", "reason", "detail"), rows)


def export(
    what: Annotated[
        str,
        typer.Argument(
            help="`recording` writes a run's answers, to be run again as `--model recorded:FILE`; `judgements` its judges'"
            " answers, for `--judge recorded:FILE`; `rating-sheet` dialogues that are drawn for people to rate; `inspect` writes"
            " logs of Inspect AI; `huggingface` writes a dataset's folder. BENCHMARK-NAME writes a table of published results, or"
            " a run in another tool's layout; an unknown name lists all."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="File or folder to write; a table's name ends in .csv, .json or .jsonl, a recording's may end in .gz."
        ),
    ],
    run: Annotated[
        list[str] | None,
        typer.Option(
            help="A run's id, or its beginning; for a table, `inspect` and `huggingface` it may be repeated. If none is named, a"
            " table takes the newest runs, and `huggingface` all published ones."
        ),
    ] = None,
    rubric: Annotated[
        str | None, typer.Option(help="For a rating sheet: what people rate by.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="For a rating sheet: seed of the draw; 0 if none is named.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="For a rating sheet: dialogues to draw; 200 if none is named."),
    ] = None,
) -> None:
    """Write runs, tables of results or datasets to files."""
    from flows.cli.exports import dataset_folder, inspect_logs, judged
    from flows.cli.exports.exporting import (
        RECORDING,
        export_folder,
        export_recording,
        export_table,
        is_folder,
    )

    if what == judged.RATING_SHEET:
        _export_sheet(run or (), out, rubric, seed, limit)
        return
    if (rubric, seed, limit) != (None, None, None):
        raise UsageError(f"{what} has no --rubric, --seed and --limit: those are a rating sheet's")
    if what == dataset_folder.NAME:
        print(f"{out}: {dataset_folder.export_dataset(find_home(), run or (), out)} rows")
        return
    if what == inspect_logs.NAME:
        if not run:
            raise UsageError(f"{what}: name runs by --run RUN. See `parley list runs`")
        print(f"{out}: {inspect_logs.export_inspect(find_home(), run, out)} samples")
        return
    try:
        of_folder = what not in (RECORDING, judged.JUDGEMENTS) and is_folder(what)
    except UnknownName as error:
        known = (
            inspect_logs.NAME,
            dataset_folder.NAME,
            judged.JUDGEMENTS,
            judged.RATING_SHEET,
            *error.known,
        )
        raise UnknownName(error.kind, error.value, known, error.remedy) from error
    if what not in (RECORDING, judged.JUDGEMENTS) and not of_folder:
        print(f"{out}: {export_table(find_home(), what, run or (), out)} rows")
        return
    if run is None or len(run) != 1:
        raise UsageError(f"{what} takes one run: name the run by --run RUN. See `parley list runs`")
    if of_folder:
        print(f"{out}: {export_folder(find_home(), what, run[0], out)} files")
        return
    write = export_recording if what == RECORDING else judged.export_judgements
    print(f"{out}: {write(find_home(), run[0], out)} answers")


def _export_sheet(
    run: Sequence[str], out: Path, rubric: str | None, seed: int | None, limit: int | None
) -> None:
    from flows.cli.exports import judged
    from flows.cli.exports.exporting import check_format, write_table

    if not run:
        raise UsageError(f"{judged.RATING_SHEET}: name runs by --run RUN. See `parley list runs`")
    check_format(out)
    draw = judged.Draw(seed or 0, limit or judged.MOST_DIALOGUES, rubric)
    print(f"{out}: {write_table(judged.rating_sheet(find_home(), run, draw), out)} rows to rate")


def site(
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write; if none is named, `site` in the home, to which nights' reports link. Replaces an earlier site"
            " there, and nothing else."
        ),
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD:NEW",
            help="Two runs or models, side by side, named as for `parley compare`; may be repeated.",
        ),
    ] = None,
) -> None:
    """Write all published results as pages for a browser. The pages need no server and no network."""
    from flows.site.writing import write_site
    from warehouse.comparison.asked import pairs_named
    from warehouse.connect import SITE

    home = find_home()
    pairs = [pair for text in compare or () for pair in pairs_named(home.path, text)]
    place = home.path / SITE if out is None else out
    counts = write_site(home, place.absolute(), pairs)
    print(f"{counts['runs']} runs and {counts['dialogues']} dialogues: {place / 'index.html'}")
