"""Writes files for other tools: a run's answers, and the tables that benchmarks offer."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from schemas.dialog import Role
from schemas.errors import ConfigError, UnknownName, UsageError
from schemas.run import RunEpisode
from tasks.benchmarks import registry
from tasks.benchmarks.results import Export
from tasks.language.recorded_model import RecordedAnswer, write_recording
from tasks.planning.known_runs import find_run
from tasks.storage.home import Home
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
    members = lake.read("run_episodes", RunEpisode, benchmark=record.benchmark, model=record.model, run_id=record.run_id)
    episodes = read_episodes(lake, record.benchmark, record.model, [m.episode_id for m in members])
    if not episodes:
        raise UsageError(f"run {record.run_id} holds no answers yet")

    def answers() -> Iterator[RecordedAnswer]:
        for member in members:
            episode = episodes[member.episode_id]
            own = (step for step in episode.steps if step.role is Role.ASSISTANT and not step.is_scripted)
            for turn, steps in groupby(own, key=lambda step: step.turn):
                for number, step in enumerate(steps):
                    yield RecordedAnswer(episode.dialog_id, turn, step.content, member.sample, number, step.calls)

    return write_recording(out, answers())


def find_export(what: str) -> Export:
    """The table `<benchmark>-<name>`.

    Raises:
        UnknownName: lists the names of all exports.
    """
    for benchmark in registry.names():
        if what.startswith(f"{benchmark}-"):
            exports = registry.load(benchmark).results.exports
            if (name := what.removeprefix(f"{benchmark}-")) in exports:
                return exports[name]
    raise UnknownName(
        "export", what, (RECORDING, *(f"{b}-{name}" for b in registry.names() for name in registry.load(b).results.exports))
    )


def export_table(home: Home, what: str, run_ids: Sequence[str], out: Path) -> int:
    """Write a benchmark's table of published results, as the file's ending says; returns the number of rows.

    Raises:
        UnknownName: no such table.
        ConfigError: a file name with another ending than `.csv`, `.json` or `.jsonl`.
        UsageError: no such run, nothing published to export, or a file that cannot be written.
    """
    export = find_export(what)
    if out.suffix not in FORMATS:
        raise ConfigError(f"--out {out}: a table is written as one of {', '.join(FORMATS)}, by the name's ending")
    lake = Lake(home.lake)
    found = export.rows(home.path, [find_run(lake, run_id).run_id for run_id in run_ids])
    if not found[1]:
        of_runs = f" of the runs {', '.join(run_ids)}" if run_ids else ""
        raise UsageError(f"{what}: no rows{of_runs} are published in {home.path}. See `parley list runs`")
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
