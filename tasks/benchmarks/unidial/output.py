"""A finished run as UniDial-EvalKit's own output folder: answers, a row for each score, and the summary."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, TypeVar

from schemas.content_id import content_id
from schemas.dialog import Dialog, Turn
from schemas.episode import Episode
from schemas.score import Score
from schemas.verdict import JudgeVerdict
from tasks.benchmarks.results import FolderExport, WholeRun
from tasks.benchmarks.unidial.answers import UDE, read_as_ude
from tasks.benchmarks.unidial.convert import normalised, placed, written
from tasks.benchmarks.unidial.datasets import safedialbench
from tasks.benchmarks.unidial.datasets.normalised import GENERATED
from tasks.benchmarks.unidial.metric_names import full_name, numbered_metrics
from tasks.benchmarks.unidial.recording import DETAILS
from tasks.benchmarks.unidial.rubrics import JUDGE, arguments_of, rubric_of, scale_of

CONFIG = {"turn_stat": "mean", "dialog_stat": "min", "dataset_level": "dialog"}
"""How the summary pools: the toolkit's default."""
Row = dict[str, Any]
OfEpisode = TypeVar("OfEpisode", Score, JudgeVerdict)
K = TypeVar("K", int, tuple[int, int])
File = tuple[str, bytes]
_LONGEST = 50
"""Letters of a folder's name that come from the data."""


def output_files(run: WholeRun) -> Iterator[File]:
    """`generated/N.json`, `eval_details/N.json` and `summary.json`; a folder for each dataset and sample where there are several.

    An answer or a score that is missing is null there; a judgement that is missing has no raw output, so that no reader takes it
    for the lowest rating.
    """
    folders = _folders({_owner(episode.dialog_id) for episode in run.episodes})
    samples = {episode.sample for episode in run.episodes}
    scores = _by_episode(run.scores)
    judgements = _by_episode(run.judgements)
    rows_of: dict[str, list[Row]] = {}
    for episode in sorted(run.episodes, key=lambda one: (one.sample, one.dialog_id)):
        dialog = run.dialogs[episode.row_digest]
        place = f"{folders[_owner(episode.dialog_id)]}/" if len(folders) > 1 else ""
        place += f"sample_{episode.sample}/" if len(samples) > 1 else ""
        said = _answered(dialog, run.context_of(dialog), episode)
        rows = list(
            _rows(
                said,
                dialog,
                scores.get(episode.episode_id, ()),
                judgements.get(episode.episode_id, ()),
            )
        )
        yield f"{place}{GENERATED}/{said['dialog_id']}.json", _text(said)
        if rows:
            yield f"{place}{DETAILS}/{said['dialog_id']}.json", _text(rows)
        rows_of.setdefault(place, []).extend(
            {name: row[name] for name in row if name != "details"} for row in rows
        )
    for place, rows in rows_of.items():
        yield f"{place}summary.json", _text({"summary": summary(rows)})


def _owner(dialog_id: str) -> str:
    """What stands before a dialogue's number: its dataset's name, or its folder's, as the data have it."""
    return dialog_id.rpartition("/")[0]


def _folders(owners: Iterable[str]) -> Mapping[str, str]:
    """Owner -> a folder's name, which no other owner has on any file system, and which stays where it is put."""
    names: dict[str, str] = {}
    for owner in sorted(owners):
        plain = re.sub(r"[^\w.-]", "_", owner)[:_LONGEST].lstrip(".") or "dataset"
        taken = {name.casefold() for name in names.values()}
        names[owner] = (
            plain if plain.casefold() not in taken else f"{plain}_{content_id(owner)[:8]}"
        )
    return names


def _by_episode(rows: Sequence[OfEpisode]) -> Mapping[str, list[OfEpisode]]:
    found: dict[str, list[OfEpisode]] = {}
    for row in rows:
        found.setdefault(row.episode_id, []).append(row)
    return found


def _text(held: Any) -> bytes:
    return (json.dumps(held, ensure_ascii=False, indent=2) + "\n").encode("utf-8", "replace")


def _answered(dialog: Dialog, context: Sequence[Turn], episode: Episode) -> Row:
    """The normalised dialogue with the answers filled in."""
    made = normalised(dialog, context)
    spoken = {turn["turn_id"]: turn for turn in made["dialog_turns"]}
    for turn_id, turn in placed(dialog):
        if turn.is_generated:
            spoken[turn_id]["content"] = episode.answer(turn.turn)
    return made


def _rows(
    said: Row, dialog: Dialog, scores: Sequence[Score], judgements: Sequence[JudgeVerdict]
) -> Iterator[Row]:
    values = {(score.turn, score.instruction_id): score.value for score in scores}
    judged = {(one.turn, one.rubric): one for one in judgements}
    for turn_id, turn in placed(dialog):
        for spec, name in numbered_metrics(turn) if turn.is_generated else ():
            value = values.get((turn.turn, name))
            rubric = rubric_of(arguments_of(spec)) if spec.name == JUDGE else None
            details = _details(rubric, judged.get((turn.turn, rubric))) if rubric else {}
            yield {
                "dialog_id": said["dialog_id"],
                "turn_id": turn_id,
                "metric_name": full_name(spec),
                "score": value,
                "details": {"score": value, **details},
                "dialog_labels": said.get("dialog_labels", {}),
                "turn_labels": _own(written(turn, turn_id).get("turn_labels", {})),
            }


def _own(labels: Mapping[str, Any]) -> Row:
    """Labels of a turn without those that only tell where it comes from."""
    return {name: text for name, text in labels.items() if not name.startswith("raw")}


def _details(rubric: str, judged: JudgeVerdict | None) -> Row:
    """What the judge said, so that whoever reads it as the toolkit does finds the rating that counts here."""
    if judged is None or judged.value is None or judged.answer_json is None:
        return {}
    answer = json.loads(judged.answer_json)
    if rubric == safedialbench.RUBRIC:
        return {
            "details": json.dumps(
                {name: answer[name] for name in ("identification", "handling", "consistency")}
            )
        }
    raw = _imported(judged.raw)
    try:
        reads_alike = read_as_ude(raw, scale_of(rubric).zero) == judged.value
    except ValueError:
        reads_alike = False
    if not reads_alike:
        raw = json.dumps(
            {"rationale": answer.get("rationale", ""), "score": judged.value}, ensure_ascii=False
        )
    return {"rationale": answer.get("rationale", ""), "raw_output": raw}


def _imported(raw: str) -> str:
    """A raw output as it was before an import marked it."""
    try:
        held = json.loads(raw)
    except ValueError:
        return raw
    return str(held[UDE]) if isinstance(held, dict) and set(held) == {UDE} else raw


def summary(rows: Sequence[Row]) -> Row:
    """The toolkit's summary of its rows: turns by mean, dialogues by minimum. Rows without a score are left out."""
    turns: dict[tuple[int, int], list[float]] = {}
    labels: dict[int, Mapping[str, Any]] = {}
    turn_labels: dict[tuple[int, int], Mapping[str, Any]] = {}
    for row in rows:
        place = (row["dialog_id"], row["turn_id"])
        if row["score"] is not None:
            turns.setdefault(place, []).append(row["score"])
            labels[row["dialog_id"]], turn_labels[place] = row["dialog_labels"], row["turn_labels"]
    of_turn = {place: fmean(values) for place, values in turns.items()}
    of_dialog: dict[int, float] = {}
    for (name, _), value in of_turn.items():
        of_dialog[name] = min(value, of_dialog.get(name, value))
    return {
        "config": CONFIG,
        "global": _stats(list(of_dialog.values())),
        "by_metric": {},
        "by_label": {
            "dialog": _grouped(of_dialog, lambda name: _with_hierarchy(labels[name])),
            "turn": _grouped(of_turn, turn_labels.__getitem__),
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
