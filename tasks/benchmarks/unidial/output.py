"""Finished runs in UniDial-EvalKit's output folder: answers, scores and summary.

A run of Parley is written as such a folder. A folder of the toolkit is read as recordings: its
answers and its judge's raw outputs.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from schemas.content_id import content_id
from schemas.dialog import Dialog, MetricSpec, Turn
from schemas.episode import Episode, Score, by_episode
from schemas.errors import SourceUnreadable
from schemas.verdict import JudgeVerdict
from tasks.benchmarks.raw_rows import BadRow
from tasks.benchmarks.results import FolderExport, WholeRun
from tasks.benchmarks.unidial.answers import UDE, read_as_ude
from tasks.benchmarks.unidial.convert import NAME, to_normal_dialog, to_normal_turn, turns_with_ids
from tasks.benchmarks.unidial.datasets import normalised, one_line
from tasks.benchmarks.unidial.datasets.normalised import GENERATED
from tasks.benchmarks.unidial.datasets.source import read_json
from tasks.benchmarks.unidial.rubrics import JUDGE, arguments_of, rubric_of, scale_of
from tasks.benchmarks.unidial.scoring import full_name, numbered_metrics
from tasks.benchmarks.unidial.stage import stage
from tasks.language.recorded_model import RecordedAnswer

DETAILS = "eval_details"
"""Folder with the metrics' rows, one file per dialogue."""
UNPLAYABLE = ("no_alternation", "nothing_to_answer", "blank_text", "missing_reference")
"""Reasons why a readable dialogue cannot be run."""
CONFIG = {"turn_stat": "mean", "dialog_stat": "min", "dataset_level": "dialog"}
"""Pooling of the summary, which is the toolkit's default."""
Row = dict[str, Any]
K = TypeVar("K", int, tuple[int, int])
File = tuple[str, bytes]
_LONGEST = 50
"""Maximum length of a folder name taken from the data."""


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
        for row in _detail_rows(path) if path.is_file() else ():
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


def _detail_rows(path: Path) -> list[dict[str, Any]]:
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


def output_files(run: WholeRun) -> Iterator[File]:
    """Yield `generated/N.json`, `eval_details/N.json` and `summary.json`.

    Each dataset and sample has its own folder if there are several. A missing answer or score is
    null. A missing judgement has no raw output, so that no reader takes it for the lowest rating.
    """
    folders = _folders({_owner(episode.dialog_id) for episode in run.episodes})
    samples = {episode.sample for episode in run.episodes}
    scores = by_episode(run.scores)
    judgements = by_episode(run.judgements)
    rows_of: dict[str, list[Row]] = {}
    for episode in sorted(run.episodes, key=lambda episode: (episode.sample, episode.dialog_id)):
        dialog = run.dialogs[episode.row_digest]
        place = f"{folders[_owner(episode.dialog_id)]}/" if len(folders) > 1 else ""
        place += f"sample_{episode.sample}/" if len(samples) > 1 else ""
        answered_dialog = _with_answers(dialog, run.context_of(dialog), episode)
        rows = list(
            _rows(
                answered_dialog,
                dialog,
                scores.get(episode.episode_id, ()),
                judgements.get(episode.episode_id, ()),
            )
        )
        yield f"{place}{GENERATED}/{answered_dialog['dialog_id']}.json", _text(answered_dialog)
        if rows:
            yield f"{place}{DETAILS}/{answered_dialog['dialog_id']}.json", _text(rows)
        rows_of.setdefault(place, []).extend(
            {name: row[name] for name in row if name != "details"} for row in rows
        )
    for place, rows in rows_of.items():
        yield f"{place}summary.json", _text({"summary": summary(rows)})


def _owner(dialog_id: str) -> str:
    """Return the part before a dialogue's number: the dataset's name or folder in the data."""
    return dialog_id.rpartition("/")[0]


def _folders(owners: Iterable[str]) -> Mapping[str, str]:
    """Return the folder name of each dataset, unique even if letter case is ignored."""
    names: dict[str, str] = {}
    for owner in sorted(owners):
        plain = re.sub(r"[^\w.-]", "_", owner)[:_LONGEST].lstrip(".") or "dataset"
        used_names = {name.casefold() for name in names.values()}
        names[owner] = (
            plain if plain.casefold() not in used_names else f"{plain}_{content_id(owner)[:8]}"
        )
    return names


def _text(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode("utf-8", "replace")


def _with_answers(dialog: Dialog, context: Sequence[Turn], episode: Episode) -> Row:
    """Return the normalised dialogue with its answers."""
    normal_dialog = to_normal_dialog(dialog, context)
    turns = {turn["turn_id"]: turn for turn in normal_dialog["dialog_turns"]}
    for turn_id, turn in turns_with_ids(dialog):
        if turn.is_generated:
            turns[turn_id]["content"] = episode.answer(turn.turn)
    return normal_dialog


def _rows(
    answered_dialog: Row,
    dialog: Dialog,
    scores: Sequence[Score],
    judgements: Sequence[JudgeVerdict],
) -> Iterator[Row]:
    values = {(score.turn, score.instruction_id): score.value for score in scores}
    judged = {(judgement.turn, judgement.rubric): judgement for judgement in judgements}
    for turn_id, turn in turns_with_ids(dialog):
        for spec, name in numbered_metrics(turn) if turn.is_generated else ():
            value = values.get((turn.turn, name))
            rubric = rubric_of(arguments_of(spec)) if spec.name == JUDGE else None
            details = _details(rubric, judged.get((turn.turn, rubric))) if rubric else {}
            yield {
                "dialog_id": answered_dialog["dialog_id"],
                "turn_id": turn_id,
                "metric_name": full_name(spec),
                "score": value,
                "details": {"score": value, **details},
                "dialog_labels": answered_dialog.get("dialog_labels", {}),
                "turn_labels": _own(to_normal_turn(turn, turn_id).get("turn_labels", {})),
            }


def _own(labels: Mapping[str, Any]) -> Row:
    """Return a turn's labels without those that only state its origin."""
    return {name: text for name, text in labels.items() if not name.startswith("raw")}


def _details(rubric: str, judged: JudgeVerdict | None) -> Row:
    """Return the judge's output in a form from which the toolkit reads the rating used here."""
    if judged is None or judged.value is None or judged.answer_json is None:
        return {}
    answer = json.loads(judged.answer_json)
    if rubric == one_line.SAFETY_RUBRIC:
        return {
            "details": json.dumps(
                {name: answer[name] for name in ("identification", "handling", "consistency")}
            )
        }
    raw = _imported(judged.raw)
    try:
        has_same_rating = read_as_ude(raw, scale_of(rubric).worst) == judged.value
    except ValueError:
        has_same_rating = False
    if not has_same_rating:
        raw = json.dumps(
            {"rationale": answer.get("rationale", ""), "score": judged.value}, ensure_ascii=False
        )
    return {"rationale": answer.get("rationale", ""), "raw_output": raw}


def _imported(raw: str) -> str:
    """Return a raw output without the key that an import added."""
    try:
        parsed = json.loads(raw)
    except ValueError:
        return raw
    return str(parsed[UDE]) if isinstance(parsed, dict) and set(parsed) == {UDE} else raw


def summary(rows: Sequence[Row]) -> Row:
    """Return the toolkit's summary: turns by mean, dialogues by minimum, without unscored rows."""
    turns: dict[tuple[int, int], list[float]] = {}
    labels: dict[int, Mapping[str, Any]] = {}
    turn_labels: dict[tuple[int, int], Mapping[str, Any]] = {}
    for row in rows:
        place = (row["dialog_id"], row["turn_id"])
        if row["score"] is not None:
            turns.setdefault(place, []).append(row["score"])
            labels[row["dialog_id"]], turn_labels[place] = row["dialog_labels"], row["turn_labels"]
    turn_means = {place: fmean(values) for place, values in turns.items()}
    dialog_minima: dict[int, float] = {}
    for (name, _), value in turn_means.items():
        dialog_minima[name] = min(value, dialog_minima.get(name, value))
    return {
        "config": CONFIG,
        "global": _stats(list(dialog_minima.values())),
        "by_metric": {},
        "by_label": {
            "dialog": _grouped(dialog_minima, lambda name: _with_hierarchy(labels[name])),
            "turn": _grouped(turn_means, turn_labels.__getitem__),
        },
    }


def _with_hierarchy(labels: Mapping[str, Any]) -> Mapping[str, Any]:
    if "task_type" not in labels or "task_subtype" not in labels:
        return labels
    return {**labels, "task_hierarchy": f"{labels['task_type']} > {labels['task_subtype']}"}


def _grouped(values: Mapping[K, float], labels_of_one: Callable[[K], Mapping[str, Any]]) -> Row:
    groups: dict[tuple[str, Any], list[float]] = {}
    order: dict[str, int] = {}
    for name, value in values.items():
        for label, text in labels_of_one(name).items():
            if text is not None and not label.startswith("_"):
                order.setdefault(label, len(order))
                groups.setdefault(
                    (label, text if isinstance(text, (str, int, float)) else str(text)), []
                ).append(value)
    ordered = sorted(groups, key=lambda group: (order[group[0]], str(group[1])))
    return {
        f"{label}:{(text, stat)}": float(value)
        for label, text in ordered
        for stat, value in _stats(groups[label, text]).items()
        if value is not None
    }


def _stats(values: Sequence[float]) -> dict[str, float | int | None]:
    if not values:
        return {"count": 0, "mean": None, "min": None, "max": None}
    return {"count": len(values), "mean": fmean(values), "min": min(values), "max": max(values)}


OUTPUT = FolderExport(
    help="a run as UniDial-EvalKit's output folder: answers, scores and their summary",
    files=output_files,
)
