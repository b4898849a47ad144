"""Turn ids of a finished run are ids, not positions: no answer is lost on the way in, no id changed
on the way out.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from schemas.dialog import Dialog
from schemas.errors import SourceUnreadable
from schemas.run import ModelIdentity, RunSpec
from tasks.benchmarks.results import WholeRun
from tasks.benchmarks.unidial import BENCHMARK
from tasks.benchmarks.unidial.convert import to_normal_dialog
from tasks.benchmarks.unidial.datasets import DATASETS
from tasks.benchmarks.unidial.output import output_files, published_answers, published_judgements
from tests.tasks.benchmarks.unidial.played import context_of, play, sample

SHIFT = 3


def write_run(
    folder: Path, dialogs: Mapping[str, dict[str, Any]], dataset: str
) -> dict[tuple[str, int], str]:
    """Write the dialogues as a finished run; returns (dialogue, place) -> answer."""
    (folder / "generated").mkdir(parents=True)
    (folder / "_meta.json").write_text(json.dumps({"benchmark_id": dataset}), encoding="utf-8")
    answers: dict[tuple[str, int], str] = {}
    for name, dialog in dialogs.items():
        for place, turn in enumerate(dialog["dialog_turns"]):
            if turn["role"] == "assistant" and turn["eval_config"]["do_eval"]:
                answers[name, place] = turn["content"] = f"answer {name} {place}"
        (folder / "generated" / f"{name}.json").write_text(json.dumps(dialog), encoding="utf-8")
    return answers


def of_sample(dataset: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for dialog in sample().dialogs:
        if dialog.dialog_id.startswith(f"{dataset}/"):
            yield dialog.dialog_id.partition("/")[2], to_normal_dialog(dialog, context_of(dialog))


def staged_again(folder: Path) -> dict[str, dict[str, Any]]:
    """The dialogues as Parley writes them out."""
    staged = BENCHMARK.data.stage(folder, "current")
    turns = {context.context_id: context.turns for context in staged.contexts}
    return {
        d.dialog_id: to_normal_dialog(d, turns[d.context_id] if d.context_id else ())
        for d in staged.dialogs
    }


def unanswered(dialog: dict[str, Any]) -> dict[str, Any]:
    turns = [
        t | {"content": None} if t["eval_config"]["do_eval"] else t for t in dialog["dialog_turns"]
    ]
    return dialog | {"dialog_turns": turns}


@pytest.fixture(params=DATASETS)
def shifted(request: pytest.FixtureRequest) -> tuple[str, dict[str, dict[str, Any]]]:
    """Dialogues whose later ids are beyond their places, as the toolkit counts LoCoMo's on from
    question to question.
    """
    dialogs = dict(of_sample(request.param))
    for dialog in dialogs.values():
        for turn in dialog["dialog_turns"][-2:]:
            turn["turn_id"] += SHIFT
    return request.param, dialogs


def test_no_answer_of_a_run_is_lost(
    tmp_path: Path, shifted: tuple[str, dict[str, dict[str, Any]]]
) -> None:
    dataset, dialogs = shifted
    answers = write_run(tmp_path, dialogs, dataset)
    found = list(published_answers(tmp_path, "m"))
    assert sorted(one.content for one in found) == sorted(answers.values())
    assert staged_again(tmp_path) == {name: unanswered(dialog) for name, dialog in dialogs.items()}


def test_fillers_that_share_an_id_stand_in_no_answers_way(tmp_path: Path) -> None:
    """The toolkit can make roles alternate by empty turns with the id -1."""
    dialogs = dict(of_sample("locomo"))
    for dialog in dialogs.values():
        filler = {**dialog["dialog_turns"][1], "turn_id": -1, "content": "", "turn_labels": {}}
        dialog["dialog_turns"][1:1] = [filler, {**filler, "role": "assistant"}]
    answers = write_run(tmp_path, dialogs, "locomo")
    assert sorted(one.content for one in published_answers(tmp_path, "m")) == sorted(
        answers.values()
    )
    assert staged_again(tmp_path) == {name: unanswered(dialog) for name, dialog in dialogs.items()}


def test_an_answer_whose_id_another_turn_has_is_refused(tmp_path: Path) -> None:
    name, dialog = next(of_sample("mt_eval"))
    dialog["dialog_turns"][-1]["turn_id"] = dialog["dialog_turns"][0]["turn_id"]
    write_run(tmp_path, {name: dialog}, "mt_eval")
    with pytest.raises(SourceUnreadable, match="belongs to an answer and to another turn"):
        list(published_answers(tmp_path, "m"))


def test_a_dialogue_that_cannot_be_played_costs_no_other_answer(tmp_path: Path) -> None:
    """The toolkit makes three dialogues without a question of MultiChallenge's template of
    answers.
    """
    (name, dialog), *_ = of_sample("multi_challenge")
    empty = dialog | {
        "dialog_id": 7,
        "dialog_turns": [{**dialog["dialog_turns"][-1], "turn_id": 0}],
    }
    answers = write_run(tmp_path, {name: dialog, "7": empty}, "multi_challenge")
    assert [one.content for one in published_answers(tmp_path, "m")] == [
        next(iter(answers.values()))
    ]
    staged = BENCHMARK.data.stage(tmp_path, "current")
    assert [row.reason for row in staged.quarantined] == ["no_alternation"]


def test_rows_go_out_with_the_ids_that_came_in(tmp_path: Path) -> None:
    name, dialog = next(of_sample("mt_eval"))
    for turn in dialog["dialog_turns"]:
        turn["turn_id"] = 10 * (turn["turn_id"] + 1)
    write_run(tmp_path, {name: dialog}, "mt_eval")
    ids = [turn["turn_id"] for turn in dialog["dialog_turns"] if turn["eval_config"]["do_eval"]]
    rows = [
        {
            "turn_id": number,
            "metric_name": "llm_judge",
            "details": {"raw_output": f'{{"Score": {number % 9}}}'},
        }
        for number in ids
    ]
    (tmp_path / "eval_details").mkdir()
    (tmp_path / "eval_details" / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
    assert len(list(published_judgements(tmp_path, "m"))) == len(ids)
    (made,) = BENCHMARK.data.stage(tmp_path, "current").dialogs
    assert [row["turn_id"] for row in exported_rows(made)] == ids


def exported_rows(dialog: Dialog) -> list[dict[str, Any]]:
    episode, _ = play("mt_eval/0", ["Tomas", "Mira"])
    episode = episode.model_copy(
        update={"row_digest": dialog.row_digest, "dialog_id": dialog.dialog_id}
    )
    spec = RunSpec(
        benchmark="unidial",
        benchmark_version="1",
        setting="mt_eval",
        dataset_version="current",
        dataset_digest="d",
        subject=ModelIdentity(provider="control", name="gold"),
    )
    run = WholeRun(spec, {dialog.row_digest: dialog}, lambda one: (), (episode,), (), ())
    return next(
        json.loads(content)
        for name, content in output_files(run)
        if name.startswith("eval_details/")
    )
