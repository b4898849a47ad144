"""A run's files in the toolkit's layout: what is missing, what is left out, and where several
samples go.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from flows.cli.exports.exporting import write_files
from schemas.dialog import Dialog
from schemas.episode import Episode, Score, UnscoredReason
from schemas.run import ModelIdentity, RunSpec
from tasks.benchmarks.results import WholeRun
from tasks.benchmarks.unidial.output import output_files, summary
from tests.tasks.benchmarks.unidial.played import context_of, dialogue, play

SPEC = RunSpec(
    benchmark="unidial",
    benchmark_version="1",
    setting="mt_eval",
    dataset_version="sample",
    dataset_digest="d",
    subject=ModelIdentity(provider="control", name="gold"),
)


def scored(episode: Episode, turn: int, name: str, value: float | None) -> Score:
    return Score(
        run_id="r",
        benchmark="unidial",
        model="m",
        episode_id=episode.episode_id,
        problem_id=episode.problem_id,
        sample=episode.sample,
        turn=turn,
        instruction_id=name,
        metric="instruction_following",
        metric_version=1,
        value=value,
        unscored_reason=UnscoredReason.INFRA if value is None else None,
    )


def files(*episodes: Episode, scores: tuple[Score, ...] = ()) -> dict[str, Any]:
    dialogs = {
        dialog.row_digest: dialog
        for _, dialog in (dialogue(episode.dialog_id) for episode in episodes)
    }
    run = WholeRun(SPEC, dialogs, context_of, episodes, scores, ())
    return {name: json.loads(content) for name, content in output_files(run)}


NAME = "instruction_following->startend:start_char"


def test_what_has_no_score_is_null_and_in_no_figure() -> None:
    episode, _ = play("mt_eval/2", ["Sky", "Red"])
    found = files(episode, scores=(scored(episode, 2, NAME, 1.0), scored(episode, 3, NAME, None)))
    number = next(iter(found)).removeprefix("generated/")
    assert [row["score"] for row in found[f"eval_details/{number}"]] == [1.0, None]
    assert found["summary.json"]["summary"]["global"] == {
        "count": 1,
        "mean": 1.0,
        "min": 1.0,
        "max": 1.0,
    }
    said = [
        turn["content"]
        for turn in found[f"generated/{number}"]["dialog_turns"]
        if turn["eval_config"]["do_eval"]
    ]
    assert said == ["Sky", "Red"]


def test_an_answer_that_never_came_is_null() -> None:
    episode, _ = play("mt_eval/2", ["Sky", "Red"])
    found = files(episode.model_copy(update={"steps": episode.steps[:-1]}))
    generated = next(held for name, held in found.items() if name.startswith("generated/"))
    assert [turn["content"] for turn in generated["dialog_turns"]][-1] is None


def test_several_samples_have_a_folder_each() -> None:
    first, _ = play("mt_eval/2", ["Sky", "Red"])
    second = first.model_copy(update={"sample": 1, "episode_id": "f"})
    found = files(first, second, scores=(scored(first, 2, NAME, 1.0), scored(second, 2, NAME, 0.0)))
    assert {name.partition("/")[0] for name in found} == {"sample_0", "sample_1"}
    means = [found[f"sample_{n}/summary.json"]["summary"]["global"]["mean"] for n in (0, 1)]
    assert means == [1.0, 0.0]


@pytest.mark.parametrize(
    "owners", [("first", "second"), ("../../x", ".._.._x"), ("A", "a"), ("", "x"), ("/", "..")]
)
def test_each_dataset_has_a_folder_of_its_own_whatever_it_is_called(
    owners: tuple[str, str], tmp_path: Path
) -> None:
    """Names come from the data: folders whose dataset nobody told, and one whose name would lead
    elsewhere.
    """
    episode, _ = play("mt_eval/2", ["Sky", "Red"])
    _, dialog = dialogue("mt_eval/2")
    played, dialogs = list[Episode](), dict[str, Dialog]()
    for owner in owners:
        name = f"{owner}/2"
        dialogs[owner] = dialog.model_copy(
            update={"dialog_id": name, "labels": (("_dataset", json.dumps("")), *_others(dialog))}
        )
        played.append(
            episode.model_copy(update={"dialog_id": name, "row_digest": owner, "episode_id": owner})
        )
    made = [name for name, _ in output_files(WholeRun(SPEC, dialogs, context_of, played, (), ()))]
    assert len(set(made)) == len(made)
    assert len({name.partition("/")[0] for name in made}) == 2
    assert write_files(tmp_path, ((name, b"") for name in made)) == len(made)


def _others(dialog: Dialog) -> list[tuple[str, str]]:
    return [label for label in dialog.labels if label[0] != "_dataset"]


def test_a_talk_before_the_question_is_written_and_where_it_came_from_is_no_label_of_an_answer() -> (
    None
):
    episode, _ = play("locomo/0", ["Biscuit"])
    _, dialog = dialogue("locomo/0")
    made = files(episode)
    generated = next(held for name, held in made.items() if name.startswith("generated/"))
    assert len(generated["dialog_turns"]) == dialog.context_turns + len(dialog.turns)
    rows = next(held for name, held in made.items() if name.startswith("eval_details/"))
    assert [row["turn_id"] for row in rows] == [generated["dialog_turns"][-1]["turn_id"]]
    assert not any(name.startswith("raw") for row in rows for name in row["turn_labels"])


def test_a_summary_groups_labels_as_the_toolkit_writes_them() -> None:
    def row(dialog: int, turn: int, score: float, kind: str) -> dict[str, Any]:
        labels = {"task_type": kind, "task_subtype": "multi"}
        return {
            "dialog_id": dialog,
            "turn_id": turn,
            "score": score,
            "dialog_labels": labels,
            "turn_labels": {"level": 2},
        }

    made = summary(
        [row(0, 1, 1.0, "a"), row(0, 1, 0.5, "a"), row(0, 3, 0.5, "a"), row(1, 1, 0.25, "b")]
    )
    assert made["global"] == {"count": 2, "mean": 0.375, "min": 0.25, "max": 0.5}
    of_dialogs = made["by_label"]["dialog"]
    assert of_dialogs["task_type:('a', 'mean')"] == 0.5
    assert of_dialogs["task_hierarchy:('b > multi', 'count')"] == 1.0
    assert of_dialogs["task_subtype:('multi', 'max')"] == 0.5
    assert made["by_label"]["turn"]["level:(2, 'mean')"] == 0.5
