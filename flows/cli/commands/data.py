"""Commands that read and write data: stage, import, export, site."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import Resources, parse_resources
from schemas.errors import UnknownName, UsageError
from tasks.benchmarks.registry import BENCHMARKS, resolve_name
from tasks.storage.home import find_home

if TYPE_CHECKING:
    from schemas.problem import QuarantinedRow
    from tasks.judging.rubric import Scales

RATINGS = "ratings"
Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


def stage(
    benchmark: Annotated[
        str, typer.Argument(help=f"Benchmark: one of {', '.join(BENCHMARKS.names())}.")
    ],
    data: Annotated[
        Path,
        typer.Option(help="File or folder of raw data, in the layout of the benchmark's authors."),
    ],
    dataset_version: Annotated[str | None, typer.Option(help="Version of the data.")] = None,
    resource: Resources = None,
    json_output: Json = False,
) -> None:
    """Read raw benchmark data into the lake.

    Valid rows are staged. Invalid rows go to quarantine with file, line and reason.
    """
    from flows.stage_benchmarks import stage_dataset
    from tasks.planning.dataset import files_line

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
        facts = {"benchmark": benchmark, "dataset_version": version, "dataset_digest": digest}
        print(json.dumps(facts | counts))
        return
    print(
        f"{benchmark} {version}: {counts['staged']} of {counts['rows']} rows staged,"
        f" {counts['quarantined']} in quarantine"
    )
    print(files_line(staged, benchmark))
    _print_quarantine(staged.quarantined)


def import_data(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="BENCHMARK|ratings",
            help=f"`{RATINGS}`, or a benchmark: one of {', '.join(BENCHMARKS.names())}.",
        ),
    ],
    source: Annotated[
        Path,
        typer.Argument(
            metavar="DIR|FILE", help="Folder of published runs, or a CSV file of ratings."
        ),
    ],
    model: Annotated[
        str | None, typer.Option(help="For published runs: name of the model, as DIR spells it.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="For published runs: file (JSONL) to which the recorded answers are written. It is"
            " compressed if its name ends in .gz."
        ),
    ] = None,
    json_output: Json = False,
) -> int:
    """Import answers that others published, or human ratings.

    `parley import BENCHMARK DIR --model NAME --out FILE` converts published answers to a recording,
    which `parley run` replays with `--model recorded:FILE`. The command also stages raw data that
    lie beside the answers. It writes published judgements to `FILE.judgements.jsonl`, which `parley
    run` replays with `--judge recorded:FILE.judgements.jsonl`.

    `parley import ratings FILE.csv` reads a CSV file with the columns episode_id, turn (0: the
    whole dialogue), rubric, dimension, rater and value (a number or a word). It also reads sheets
    from `parley export rating-sheet` or `parley build` that people filled in. A rating replaces an
    earlier rating by the same rater. Rubrics, dimensions and values must be among those that the
    benchmark defines; a benchmark without rubrics accepts any. `parley agreement` shows how far
    raters agree. Exit code 3: some rows went to quarantine.
    """
    if kind == RATINGS:
        if model is not None or out is not None:
            raise UsageError(
                "--model and --out have no effect on ratings. Type: parley import ratings FILE.csv"
            )
        return _import_ratings(source, json_output)
    if model is None or out is None:
        raise UsageError(
            f"--model and --out are missing. Type: parley import {kind} {source} --model NAME"
            " --out FILE"
        )
    _import_recording(kind, source, model, out)
    return 0


def _import_recording(benchmark: str, folder: Path, model: str, out: Path) -> None:
    from tasks.benchmarks.registry import BENCHMARKS
    from tasks.language.recorded_model import write_recording

    published = BENCHMARKS.load(benchmark).recordings
    if published is None:
        raise UsageError(f"Parley cannot import published runs of benchmark {benchmark!r}")
    n_lines = write_recording(out, published.answers(folder, model))
    print(f"{out}: {n_lines} answers of {model}")
    if published.judgements is not None:
        recording = out.with_name(f"{out.name}.judgements.jsonl")
        n_judgements = write_recording(recording, published.judgements(folder, model))
        print(f"{recording}: {n_judgements} judge verdicts on the recorded answers")
    raw = published.raw_data(folder)
    if raw is not None:
        data, dataset_version = raw
        stage(benchmark, data, dataset_version)


def _import_ratings(source: Path, json_output: bool) -> int:
    from tasks.judging.ratings import import_ratings
    from tasks.planning.reporting.publishing import publish_to_warehouse

    home = find_home()
    imported = import_ratings(home, source, _scales)
    publish_to_warehouse(home, ())
    file, n_stored = imported.file, len(imported.file.ratings)
    if json_output:
        counts = {
            "rows": file.n_input,
            "kept": n_stored,
            "changed": imported.n_changed,
            "quarantined": len(file.quarantined),
        }
        print(json.dumps(counts))
    else:
        rest = f", {len(file.quarantined)} rows in quarantine" if file.quarantined else ""
        print(
            f"{source}: {n_stored} of {file.n_input} ratings stored, {imported.n_changed} new or"
            f" changed{rest}"
        )
        _print_quarantine(file.quarantined)
    return 3 if file.quarantined else 0


def _scales(benchmark: str) -> "Scales | None":
    """Return the scales of a benchmark's rubrics.

    None: the benchmark has no rubrics or is not installed, so raters choose their own scales.
    """
    from tasks.benchmarks.registry import BENCHMARKS
    from tasks.judging.rubric import scales_of

    try:
        judging = BENCHMARKS.load(benchmark).judging
    except UnknownName:
        return None
    return None if judging is None else scales_of(judging.rubrics)


def _print_quarantine(quarantined: Sequence["QuarantinedRow"]) -> None:
    if quarantined:
        from flows.text.records import print_rows

        rows = [(q.source_file, q.source_line, q.reason, q.detail) for q in quarantined[:20]]
        print_rows("Quarantine (first 20 rows)", ("file", "line", "reason", "detail"), rows)


def export(
    export_name: Annotated[
        str,
        typer.Argument(
            metavar="EXPORT",
            help="`recording`: a run's answers, for `--model recorded:FILE`. `judgements`: a run's"
            " judge answers, for `--judge"
            " recorded:FILE`. `rating-sheet`: randomly drawn dialogues for people to rate."
            " `inspect`: Inspect AI logs. `huggingface`:"
            " a dataset folder. BENCHMARK-NAME: a table of published results, or a run in another"
            " tool's format. An unknown name"
            " prints all names.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="File or folder to write. A table's name must end in .csv, .json or .jsonl; a"
            " recording's can end in .gz."
        ),
    ],
    run: Annotated[
        list[str] | None,
        typer.Option(
            help="Run to export: an id, or its first characters. Repeatable for tables, `inspect`"
            " and `huggingface`. Default: the newest"
            " runs for a table, all published runs for `huggingface`."
        ),
    ] = None,
    rubric: Annotated[
        str | None, typer.Option(help="For a rating sheet: the rubric that people rate by.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="For a rating sheet: random seed of the draw. Default: 0.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="For a rating sheet: number of dialogues. Default: 200."),
    ] = None,
) -> None:
    """Write runs, result tables or datasets to files."""
    from flows.cli.exports.exporting import RATING_SHEET, find_export
    from flows.cli.exports.judged import MOST_DIALOGUES, Draw

    draws = export_name == RATING_SHEET
    if not draws and (rubric, seed, limit) != (None, None, None):
        raise UsageError(
            f"--rubric, --seed and --limit have no effect on {export_name}, only on"
            f" {RATING_SHEET}. Remove them"
        )
    kind, run_ids = find_export(export_name), run or []
    if kind.runs == "some" and not run_ids:
        raise UsageError(f"{export_name} needs --run RUN. `parley list runs` shows all runs")
    if kind.runs == "one" and len(run_ids) != 1:
        raise UsageError(
            f"{export_name} needs exactly one --run RUN. `parley list runs` shows all runs"
        )
    runs = run_ids[0] if kind.runs == "one" else run_ids
    draw = [Draw(seed or 0, limit or MOST_DIALOGUES, rubric)] if draws else []
    print(f"{out}: {kind.write(find_home(), runs, out, *draw)} {kind.unit}")


def site(
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write. Default: `site` in Parley's home, to which night reports link."
            " An earlier site there is replaced;"
            " other files stay."
        ),
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD:NEW",
            help="Add a page that compares two runs or models, as `parley compare` does."
            " Repeatable.",
        ),
    ] = None,
) -> None:
    """Write all published results as HTML pages. The pages need no server and no network."""
    from flows.site.writing import write_site
    from warehouse.comparison.named_pairs import pairs_named
    from warehouse.connect import SITE

    home = find_home()
    pairs = [pair for text in compare or () for pair in pairs_named(home.path, text)]
    place = home.path / SITE if out is None else out
    counts = write_site(home, place.absolute(), pairs)
    print(f"{counts['runs']} runs and {counts['dialogues']} dialogues: {place / 'index.html'}")
