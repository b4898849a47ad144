"""Exports of finished work: a run's answers, and tables and folders that benchmarks define."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path, PurePosixPath

from schemas.dialog import Dialog, Role
from schemas.errors import ConfigError, UnknownName, UsageError
from schemas.lake.records import RunEpisode, RunRecord
from schemas.run import RunSpec
from schemas.score import Score
from schemas.verdict import JudgeVerdict
from tasks.benchmarks.registry import BENCHMARKS
from tasks.benchmarks.results import Export, FolderExport, WholeRun
from tasks.language.recorded_model import RecordedAnswer, write_recording
from tasks.planning.why_rerun import find_run
from tasks.storage.home import Home
from tasks.storage.new_folder import new_folder, replace_file
from tasks.storage.parquet_store import Lake
from tasks.storage.pending import read_episodes
from tasks.storage.staged_rows import context_of
from warehouse.connect import Rows

RECORDING = "recording"
FORMATS = (".csv", ".json", ".jsonl")


def export_recording(home: Home, run_id: str, out: Path) -> int:
    """Write all answers of a run's subject as a recording, and return their number.

    Raises:
        UsageError: the run does not exist, or has no answers.
    """
    lake = Lake(home.lake)
    record = find_run(lake, run_id)
    members = lake.read(
        "run_episodes",
        RunEpisode,
        benchmark=record.benchmark,
        model=record.model,
        run_id=record.run_id,
    )
    episodes = read_episodes(lake, record.benchmark, record.model, [m.episode_id for m in members])
    if not episodes:
        raise UsageError(
            f"run {record.run_id} has no answers yet. Resume it with `parley run` first"
        )

    def answers() -> Iterator[RecordedAnswer]:
        for member in members:
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


def find_export(export: str) -> Export | FolderExport:
    """Return the export named `BENCHMARK-NAME`, which writes a table or a folder.

    Raises:
        UnknownName: no export has this name; the error lists all names.
    """
    for benchmark in BENCHMARKS.names():
        if export.startswith(f"{benchmark}-"):
            name, results = export.removeprefix(f"{benchmark}-"), BENCHMARKS.load(benchmark).results
            if match := results.exports.get(name) or results.folders.get(name):
                return match
    by_benchmark = ((b, BENCHMARKS.load(b).results) for b in BENCHMARKS.names())
    names = (
        RECORDING,
        *(
            f"{b}-{name}"
            for b, results in by_benchmark
            for name in (*results.exports, *results.folders)
        ),
    )
    raise UnknownName("export", export, names, "`parley export --help` explains them")


def is_folder(export: str) -> bool:
    """Return True if an export writes a folder.

    Raises:
        UnknownName: no export has this name.
    """
    return isinstance(find_export(export), FolderExport)


def export_folder(home: Home, name: str, run_id: str, out: Path) -> int:
    """Write a run as a folder of files for another tool, and return the number of files.

    An error leaves `out` unchanged.

    Raises:
        UnknownName: no export has this name.
        UsageError: the run does not exist or is unfinished, `out` holds files, or a file of the
            export has a name that `write_files` refuses.
    """
    export = find_export(name)
    if not isinstance(export, FolderExport):
        raise UsageError(f"{name} is a table, not a folder")
    lake = Lake(home.lake)
    record = find_run(lake, run_id)
    if record.status == "incomplete":
        raise UsageError(
            f"run {record.run_id} is not finished. Resume it with its command, then export it"
        )
    with new_folder(out, lambda path: False, replace=False) as folder:
        return write_files(folder, export.files(_whole_run(lake, record)))


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


def _whole_run(lake: Lake, record: RunRecord) -> WholeRun:
    spec = RunSpec.model_validate_json(record.spec_json)
    keys = {"benchmark": record.benchmark, "model": record.model, "run_id": record.run_id}
    members = lake.read("run_episodes", RunEpisode, **keys)
    episodes = read_episodes(lake, record.benchmark, record.model, [m.episode_id for m in members])
    wanted = {episode.row_digest for episode in episodes.values()}
    dialogs = lake.read(
        "dialogs", Dialog, benchmark=record.benchmark, dataset_version=record.dataset_version
    )
    return WholeRun(
        spec=spec,
        dialogs={dialog.row_digest: dialog for dialog in dialogs if dialog.row_digest in wanted},
        context_of=lambda dialog: context_of(lake, dialog),
        episodes=tuple(episodes.values()),
        scores=lake.read("scores", Score, **keys),
        judgements=lake.read("judge_verdicts", JudgeVerdict, **keys),
    )


def export_table(home: Home, name: str, run_ids: Sequence[str], out: Path) -> int:
    """Write a benchmark's table of published results, and return its number of rows.

    The file name's extension selects the format.

    Raises:
        UnknownName: no export has this name.
        ConfigError: the extension is not `.csv`, `.json` or `.jsonl`.
        UsageError: a run does not exist, no rows are published, or `out` is not writable.
    """
    export = find_export(name)
    if not isinstance(export, Export):
        raise UsageError(f"{name} is a folder, not a table")
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
    """Write a table in the format of the file name's extension, and return its number of rows.

    Raises:
        ConfigError: the extension is not `.csv`, `.json` or `.jsonl`.
    """
    check_format(out)
    replace_file(out, _text(table, out.suffix).encode())
    return len(table[1])


def _text(table: Rows, ending: str) -> str:
    columns, rows = table
    if ending == ".csv":
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows((columns, *rows))
        return text.getvalue()
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    if ending == ".json":
        return json.dumps(records, ensure_ascii=False, indent=1) + "\n"
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
