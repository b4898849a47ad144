"""Writes files for other tools: a run's answers, and the tables and folders that benchmarks offer."""

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
from tasks.planning.known_runs import find_run
from tasks.storage.contexts import context_of
from tasks.storage.home import Home
from tasks.storage.new_folder import new_folder
from tasks.storage.owed import read_episodes
from tasks.storage.parquet_store import Lake
from tasks.storage.replaced_file import replace_file
from warehouse.connect import Rows

RECORDING = "recording"
FORMATS = (".csv", ".json", ".jsonl")


def export_recording(home: Home, run_id: str, out: Path) -> int:
    """Write all answers of a run's subject as a recording; returns how many.

    Raises:
        UsageError: no such run, or one without any answer.
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
        raise UsageError(f"run {record.run_id} holds no answers yet")

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


def find_export(what: str) -> Export | FolderExport:
    """The table or folder `<benchmark>-<name>`.

    Raises:
        UnknownName: lists the names of all exports.
    """
    for benchmark in BENCHMARKS.names():
        if what.startswith(f"{benchmark}-"):
            name, results = what.removeprefix(f"{benchmark}-"), BENCHMARKS.load(benchmark).results
            if found := results.exports.get(name) or results.folders.get(name):
                return found
    offered = ((b, BENCHMARKS.load(b).results) for b in BENCHMARKS.names())
    known = (
        RECORDING,
        *(f"{b}-{name}" for b, results in offered for name in (*results.exports, *results.folders)),
    )
    raise UnknownName("export", what, known, "`parley export --help` explains them")


def is_folder(what: str) -> bool:
    """Whether an export is a folder. Raises: as `find_export`."""
    return isinstance(find_export(what), FolderExport)


def export_folder(home: Home, what: str, run_id: str, out: Path) -> int:
    """Write a run as a folder of files for another tool; returns how many. An error leaves `out` as it was.

    Raises:
        UnknownName: no such folder.
        UsageError: no such run, one without scores, a folder that holds files, or files that `write_files` refuses.
    """
    export = find_export(what)
    if not isinstance(export, FolderExport):
        raise UsageError(f"{what} is a table, not a folder")
    lake = Lake(home.lake)
    record = find_run(lake, run_id)
    if record.status == "incomplete":
        raise UsageError(
            f"run {record.run_id} is not finished: type its command again, then export it"
        )
    with new_folder(out, lambda path: False, replace=False) as folder:
        return write_files(folder, export.files(_whole_run(lake, record)))


def write_files(folder: Path, files: Iterable[tuple[str, bytes]]) -> int:
    """Write files by their names within a folder; returns how many.

    Raises:
        UsageError: a name that leads out of the folder, or that a file before it had.
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
                f"a file of the export is called {name!r}, which is no place in its folder. Nothing is written"
            )
        if str(place) in written:
            raise UsageError(
                f"two files of the export are called {name!r}, and one would replace the other. Nothing is written"
            )
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


def export_table(home: Home, what: str, run_ids: Sequence[str], out: Path) -> int:
    """Write a benchmark's table of published results, as the file's ending says; returns the number of rows.

    Raises:
        UnknownName: no such table.
        ConfigError: a file name with another ending than `.csv`, `.json` or `.jsonl`.
        UsageError: no such run, nothing published to export, or a file that cannot be written.
    """
    export = find_export(what)
    if not isinstance(export, Export):
        raise UsageError(f"{what} is a folder, not a table")
    check_format(out)
    lake = Lake(home.lake)
    found = export.rows(home.path, [find_run(lake, run_id).run_id for run_id in run_ids])
    if not found[1]:
        of_runs = f" of the runs {', '.join(run_ids)}" if run_ids else ""
        raise UsageError(
            f"{what}: no rows{of_runs} are published in {home.path}. Tables may leave out controls. See `parley list runs`"
        )
    return write_table(found, out)


def check_format(out: Path) -> None:
    """Refuse a name of a table that ends otherwise than in `.csv`, `.json` or `.jsonl`. Raises ConfigError."""
    if out.suffix not in FORMATS:
        raise ConfigError(
            f"--out {out}: a table is written as one of {', '.join(FORMATS)}, by the name's ending"
        )


def write_table(found: Rows, out: Path) -> int:
    """Write a table as the file's ending says; returns the number of rows. Raises: as `check_format`."""
    check_format(out)
    replace_file(out, _text(found, out.suffix).encode())
    return len(found[1])


def _text(found: Rows, ending: str) -> str:
    columns, rows = found
    if ending == ".csv":
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows((columns, *rows))
        return text.getvalue()
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    if ending == ".json":
        return json.dumps(records, ensure_ascii=False, indent=1) + "\n"
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
