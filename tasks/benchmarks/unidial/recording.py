"""Finished run of UniDial-EvalKit as recordings: its answers and its judge's raw outputs."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from schemas.dialog import Dialog, MetricSpec, Turn
from schemas.errors import SourceUnreadable
from tasks.benchmarks.raw_rows import BadRow
from tasks.benchmarks.unidial.answers import UDE
from tasks.benchmarks.unidial.convert import NAME, turns_with_ids
from tasks.benchmarks.unidial.datasets import normalised
from tasks.benchmarks.unidial.datasets.source import read_json
from tasks.benchmarks.unidial.programs import full_name
from tasks.benchmarks.unidial.rubrics import JUDGE, arguments_of, rubric_of
from tasks.benchmarks.unidial.stage import stage
from tasks.language.recorded_model import RecordedAnswer

DETAILS = "eval_details"
"""Folder with the metrics' rows, one file per dialogue."""
UNPLAYABLE = ("no_alternation", "nothing_to_answer", "blank_text", "missing_reference")
"""Reasons why a readable dialogue cannot be run."""


def published_answers(folder: Path, model: str) -> Iterator[RecordedAnswer]:
    """Yield the answers in `generated/N.json` with Parley's round numbers.

    Missing answers are left out. Dialogues that Parley cannot run are left out, too: a run on the
    folder lists them as quarantined rows.

    Raises:
        SourceUnreadable: The folder does not exist, or one of its dialogues cannot be read.
    """
    dialogs, contents = _dialogs(folder, model), dict[str, dict[int, str | None]]()
    for read in normalised.read(normalised.find(_run(folder, model))):
        if not isinstance(read.dialog, BadRow):
            contents[str(read.dialog.dialog_id)] = {
                turn.turn_id: turn.content for turn in read.dialog.dialog_turns
            }
    for name, dialog in dialogs.items():
        for turn_id, turn in turns_with_ids(dialog):
            content = contents[name].get(turn_id)
            if turn.is_generated and content is not None:
                yield RecordedAnswer(name, turn.turn, content)


def published_judgements(folder: Path, model: str) -> Iterator[RecordedAnswer]:
    """Yield the judge's raw outputs in `eval_details/N.json`, marked for the toolkit's parsing.

    Raises:
        SourceUnreadable: A file of rows cannot be read, or a row belongs to no answer.
    """
    run = _run(folder, model)
    for name, dialog in _dialogs(folder, model).items():
        path = run / DETAILS / f"{name}.json"
        turns = {turn_id: turn for turn_id, turn in turns_with_ids(dialog) if turn.is_generated}
        yielded: set[tuple[int, str]] = set()
        for row in _rows(path) if path.is_file() else ():
            if not str(row.get("metric_name", "")).startswith(JUDGE):
                continue
            turn = turns.get(row.get("turn_id", -1))
            if turn is None:
                raise SourceUnreadable(
                    f"{path}: turn_id {row.get('turn_id')!r} is not an answer of dialogue {name}"
                )
            rubric, content = (
                _rubric(turn, str(row["metric_name"])),
                _content(row.get("details") or {}),
            )
            if content is not None and (turn.turn, rubric) not in yielded:
                yielded.add((turn.turn, rubric))
                yield RecordedAnswer(name, turn.turn, content, rubric=rubric, benchmark=NAME)


def _run(folder: Path, model: str) -> Path:
    """Return the run's folder: the given one, or the model's below it."""
    for place in (folder, folder / model):
        if (place / normalised.GENERATED).is_dir():
            return place
    raise SourceUnreadable(
        f"{folder} has no folder `{normalised.GENERATED}` and no folder of a model {model!r}. "
        "Name the output folder of a finished UniDial-EvalKit run"
    )


def _dialogs(folder: Path, model: str) -> Mapping[str, Dialog]:
    staged = stage(_run(folder, model), "current")
    bad = next((row for row in staged.quarantined if row.reason not in UNPLAYABLE), None)
    if bad is not None:
        raise SourceUnreadable(f"{folder}: {bad.source_file}: {bad.reason}, {bad.detail}")
    return {dialog.dialog_id: dialog for dialog in staged.dialogs}


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        rows = read_json(path)
    except BadRow as bad:
        raise SourceUnreadable(f"{path}: {bad.reason}, {bad.detail}") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SourceUnreadable(f"{path}: the file has no list of rows")
    return rows


def _rubric(turn: Turn, metric_name: str) -> str:
    specs = [spec for spec in turn.metrics if spec.name == JUDGE and full_name(spec) == metric_name]
    template = metric_name.partition("->")[2]
    spec = (
        specs[0]
        if specs
        else MetricSpec(name=JUDGE, arguments=(("template_name", json.dumps(template)),))
    )
    return rubric_of(arguments_of(spec))


def _content(details: Mapping[str, Any]) -> str | None:
    """Return the judge's output.

    For the safety judge, whose text is not stored, its three numbers.
    """
    raw, numbers = details.get("raw_output"), details.get("details")
    if isinstance(raw, str):
        return json.dumps({UDE: raw}, ensure_ascii=False)
    parsed = json.loads(numbers) if isinstance(numbers, str) else numbers
    if not isinstance(parsed, dict) or "identification" not in parsed:
        return None
    return json.dumps(
        {name: parsed[name] for name in ("identification", "handling", "consistency")}
    )
