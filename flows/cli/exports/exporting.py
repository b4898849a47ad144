"""Kinds of exports: a run's answers, its judgements, and what benchmarks and other tools define."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from flows.cli.commands.read import csv_text
from flows.cli.exports.inspect_logs import export_inspect
from flows.cli.exports.judged import Draw, export_judgements, rating_sheet
from flows.cli.exports.stored_run import StoredRun
from flows.text.records import as_records
from schemas.dialog import Role
from schemas.episode import Score
from schemas.errors import ConfigError, UnknownName, UsageError
from schemas.verdict import JudgeVerdict
from tasks.benchmarks.registry import BENCHMARKS
from tasks.benchmarks.results import Export, FolderExport, WholeRun
from tasks.language.recorded_model import RecordedAnswer, write_recording
from tasks.planning.why_rerun import find_run
from tasks.storage.home import Home
from tasks.storage.new_folder import new_folder, replace_file
from tasks.storage.parquet_store import Lake
from tasks.storage.staged_rows import context_of
from warehouse.connect import Rows, connect, identifier, query, warehouse_path

DATASET_TABLES = {
    "leaderboard": "each run and metric: mean, 95% interval, n, number of unscored values",
    "runs": "each run: model, setting, data, all parameters (`spec_json`)",
    "episodes": "each dialogue, with its stop reason",
    "turns": "each message: prompts, answers, feedback, tokens, latency",
    "steps": "each message, tool call and observation",
    "test_verdicts": "each instruction's tests on each answer, with their output",
    "forgery_audit": "each audited pass: the altered test, and whether the answer also passed it",
    "judge_verdicts": "each rating, with the judge's words",
    "scores": "each metric's value for each turn; NULL with a reason if it could not be measured",
}
"""Map from table to the meaning of its rows. The hub shows the first table by default."""
_ROWS_AT_ONCE = 20_000
_OWN = {"runs": "* exclude (work, state)"}


def export_dataset(home: Home, run_ids: Sequence[str], out: Path) -> int:
    """Write the published rows of some runs into a new folder, and return their number.

    Args:
        home: Parley's home.
        run_ids: runs to export. Empty: all published runs.
        out: the new folder.

    Raises:
        UsageError: a run does not exist or is not published, nothing is published, or `out` holds
            files.
    """
    import duckdb

    lake = Lake(home.lake)
    published = [
        row[0]
        for row in query(
            home.path, "select run_id from runs where status = 'finished' order by run_id"
        )[1]
    ]
    wanted = [find_run(lake, run_id).run_id for run_id in run_ids] or published
    for run_id in wanted:
        if run_id not in published:
            raise UsageError(
                f"run {run_id} is not published. `parley list runs` shows each run's status"
            )
    if not wanted:
        raise UsageError(
            f"no run is published in {home.path}. `parley list runs` shows each run's status"
        )
    try:
        with connect(home.path) as connection, new_folder(out) as folder:
            counts = {
                table: _write(connection, table, wanted, folder / table) for table in DATASET_TABLES
            }
            (folder / "README.md").write_text(_card(home, wanted, counts), encoding="utf-8")
    except duckdb.Error as error:
        raise UsageError(
            f"{warehouse_path(home.path)} cannot be read: {error}. Update it with `parley publish`"
        ) from error
    return sum(counts.values())


def _write(connection: Any, table: str, run_ids: Sequence[str], folder: Path) -> int:
    """Write a table's rows to one Parquet file, `_ROWS_AT_ONCE` rows in memory at once."""
    import pyarrow.parquet as pq

    folder.mkdir()
    columns = _OWN.get(table, "*")
    statement = (
        f"select {columns} from {identifier(table)} where list_contains($runs::varchar[], run_id)"
        " order by all"
    )
    batches = connection.sql(statement, params={"runs": list(run_ids)}).to_arrow_reader(
        _ROWS_AT_ONCE
    )
    n_rows = 0
    with pq.ParquetWriter(folder / "part-00000.parquet", batches.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            n_rows += batch.num_rows
    return n_rows


def _card(home: Home, run_ids: Sequence[str], counts: Mapping[str, int]) -> str:
    """Return the dataset card: a YAML header for the hub, Markdown for people."""
    import yaml

    from flows.text.records import markdown_table
    from flows.text.results import result_markdown

    configs: list[dict[str, object]] = [
        {"config_name": table, "data_files": f"{table}/*.parquet"} for table in DATASET_TABLES
    ]
    configs[0]["default"] = True
    head = {
        "pretty_name": "Results of Parley",
        "tags": ["evaluation", "code", "multi-turn"],
        "configs": configs,
    }
    _, rows = query(home.path, "select setting, model, run_id, dataset_version from runs")
    runs = [
        (run_id, setting, data, model)
        for setting, model, run_id, data in sorted(rows)
        if run_id in run_ids
    ]
    tables = [
        f"- `{table}`, {counts[table]} rows: {text}" for table, text in DATASET_TABLES.items()
    ]
    return "\n".join(
        [
            "---",
            yaml.safe_dump(head, sort_keys=False).rstrip(),
            "---",
            "",
            "# Dialogues of code models, with tests and scores",
            "",
            "Written by Parley (`parley export huggingface`). Every table has `run_id`; tables of"
            " dialogues also have `episode_id`.",
            "Each mean comes with `n` and `n_unscored`. A value that could not be measured is"
            " NULL with a reason, never 0.",
            "Models wrote the texts, which are unchanged: treat them as data, not as instructions"
            " or markup.",
            "The licences of the benchmarks' data apply to the prompts quoted here.",
            "",
            *tables,
            "",
            "## Runs",
            "",
            markdown_table(("run", "setting", "data", "model"), runs),
            "",
            "## Results",
            "",
            result_markdown(home, list(run_ids)),
            "",
        ]
    )


RATING_SHEET = "rating-sheet"
FORMATS = (".csv", ".json", ".jsonl")


def export_recording(home: Home, run_id: str, out: Path) -> int:
    """Write all answers of a run's subject as a recording, and return their number.

    Raises:
        UsageError: the run does not exist, or has no answers.
    """
    run = StoredRun.find(home, run_id)
    episodes = run.episodes()
    if not episodes:
        raise UsageError(
            f"run {run.record.run_id} has no answers yet. Resume it with `parley run` first"
        )

    def answers() -> Iterator[RecordedAnswer]:
        for member in run.members():
            episode = episodes[member.episode_id]
            own = (
                step
                for step in episode.steps
                if step.role is Role.ASSISTANT and not step.is_scripted
            )
            for turn, steps in groupby(own, key=lambda step: step.turn):
                for number, step in enumerate(steps):
                    yield RecordedAnswer(
                        episode.dialog_id, turn, step.content, member.sample, number, step.calls
                    )

    return write_recording(out, answers())


def _export_sheet(home: Home, run_ids: Sequence[str], out: Path, draw: Draw) -> int:
    check_format(out)
    return write_table(rating_sheet(home, run_ids, draw), out)


@dataclass(frozen=True)
class ExportKind:
    """Kind of export, and the runs that it takes."""

    runs: Literal["any", "some", "one"]
    """Number of runs. `any`: without a run, the export chooses them. `some`: one or more."""
    unit: str
    """What `write` counts."""
    write: Callable[..., int]
    """Function of the home, the runs' ids (of `one`: the id), and the file or folder to write."""


_KINDS: Mapping[str, ExportKind] = {
    "inspect": ExportKind("some", "samples", export_inspect),
    "huggingface": ExportKind("any", "rows", export_dataset),
    "judgements": ExportKind("one", "answers", export_judgements),
    RATING_SHEET: ExportKind("some", "rows to rate", _export_sheet),
    "recording": ExportKind("one", "answers", export_recording),
}


def find_export(name: str) -> ExportKind:
    """Return the kind of export of this name. A benchmark's exports are named `BENCHMARK-NAME`.

    Raises:
        UnknownName: no export has this name; the error lists all names.
    """
    if name in _KINDS:
        return _KINDS[name]
    for benchmark in BENCHMARKS.names():
        if name.startswith(f"{benchmark}-") and (export := _exports_of(benchmark).get(name)):
            return (
                ExportKind("any", "rows", partial(_export_table, name, export))
                if isinstance(export, Export)
                else ExportKind("one", "files", partial(_export_folder, export))
            )
    names = [*_KINDS, *(name for b in BENCHMARKS.names() for name in _exports_of(b))]
    raise UnknownName("export", name, names, "`parley export --help` explains them")


def _exports_of(benchmark: str) -> Mapping[str, Export | FolderExport]:
    results = BENCHMARKS.load(benchmark).results
    exports = {**results.exports, **results.folders}
    return {f"{benchmark}-{name}": export for name, export in exports.items()}


def _export_folder(export: FolderExport, home: Home, run_id: str, out: Path) -> int:
    """Write a run as a folder of files for another tool, and return the number of files.

    An error leaves `out` unchanged.

    Raises:
        UsageError: the run does not exist or is unfinished, `out` holds files, or a file of the
            export has a name that `write_files` refuses.
    """
    run = StoredRun.find(home, run_id)
    run.require_complete()
    with new_folder(out) as folder:
        return write_files(folder, export.files(_whole_run(run)))


def write_files(folder: Path, files: Iterable[tuple[str, bytes]]) -> int:
    """Write files into a folder, and return their number.

    Raises:
        UsageError: a name points outside the folder, or two files have the same name.
    """
    written = set[str]()
    for name, content in files:
        place = PurePosixPath(name)
        if (
            place.is_absolute()
            or ".." in place.parts
            or not place.name
            or "\\" in name
            or "\0" in name
        ):
            raise UsageError(
                f"the export has a file named {name!r}, which lies outside its folder. Nothing"
                " was written"
            )
        if str(place) in written:
            raise UsageError(f"the export has two files named {name!r}. Nothing was written")
        written.add(str(place))
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return len(written)


def _whole_run(run: StoredRun) -> WholeRun:
    episodes = tuple(run.episodes().values())
    wanted = {episode.row_digest for episode in episodes}
    return WholeRun(
        spec=run.spec,
        dialogs={
            dialog.row_digest: dialog for dialog in run.dialogs() if dialog.row_digest in wanted
        },
        context_of=lambda dialog: context_of(run.lake, dialog),
        episodes=episodes,
        scores=run.lake.read("scores", Score, **run.keys),
        judgements=run.lake.read("judge_verdicts", JudgeVerdict, **run.keys),
    )


def _export_table(name: str, export: Export, home: Home, run_ids: Sequence[str], out: Path) -> int:
    """Write a benchmark's table of published results, and return its number of rows.

    Raises:
        ConfigError: the file name's extension is not `.csv`, `.json` or `.jsonl`.
        UsageError: a run does not exist, no rows are published, or `out` is not writable.
    """
    check_format(out)
    lake = Lake(home.lake)
    table = export.rows(home.path, [find_run(lake, run_id).run_id for run_id in run_ids])
    if not table[1]:
        of_runs = f" of the runs {', '.join(run_ids)}" if run_ids else ""
        raise UsageError(
            f"{name}: no rows{of_runs} are published in {home.path}. Some tables omit control"
            " models. `parley list runs` shows each run's status"
        )
    return write_table(table, out)


def check_format(out: Path) -> None:
    """Refuse a table's file name with an unknown extension.

    Raises:
        ConfigError: the extension is not `.csv`, `.json` or `.jsonl`.
    """
    if out.suffix not in FORMATS:
        raise ConfigError(
            f"--out {out}: a table's file name must end in one of {', '.join(FORMATS)}"
        )


def write_table(table: Rows, out: Path) -> int:
    """Write a table in the format of the file name's extension, and return its number of rows."""
    replace_file(out, _text(table, out.suffix).encode())
    return len(table[1])


def _text(table: Rows, ending: str) -> str:
    columns, rows = table
    if ending == ".csv":
        return csv_text(columns, rows)
    records = as_records(columns, rows)
    if ending == ".json":
        return json.dumps(records, ensure_ascii=False, indent=1) + "\n"
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
