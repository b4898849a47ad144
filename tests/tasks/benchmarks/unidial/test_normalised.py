"""UniDial-EvalKit's normalised JSON, in and out: nothing is lost on the way."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.dialog import Dialog, Turn
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.unidial import BENCHMARK
from tasks.benchmarks.unidial.convert import labels_of, to_normal_dialog
from tests.tasks.benchmarks.unidial.played import sample


def written(staged: Staged) -> dict[str, dict[str, Any]]:
    contexts = {context.context_id: context.turns for context in staged.contexts}

    def before(dialog: Dialog) -> tuple[Turn, ...]:
        return contexts[dialog.context_id] if dialog.context_id else ()

    return {dialog.dialog_id: to_normal_dialog(dialog, before(dialog)) for dialog in staged.dialogs}


@pytest.mark.shared
def test_mt_eval_comes_out_as_it_went_in(shared_data: Path) -> None:
    folder = shared_data / "mt_eval"
    out = written(BENCHMARK.data.stage(folder, "current"))
    assert len(out) == 10
    for name, dialog in out.items():
        assert dialog == json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "dataset",
    ["mt_eval", "locomo", "mathchat", "memorycode", "multi_if", "personamem", "longmemeval"],
)
def test_each_dataset_of_the_sample_is_the_same_read_raw_or_normalised(
    dataset: str, tmp_path: Path
) -> None:
    raw = {
        name: dialog for name, dialog in written(sample()).items() if name.startswith(f"{dataset}/")
    }
    for name, dialog in raw.items():
        (tmp_path / f"{name.partition('/')[2]}.json").write_text(
            json.dumps(dialog), encoding="utf-8"
        )
    (tmp_path / "_meta.json").write_text(
        json.dumps({"version": 1, "benchmark_id": dataset}), encoding="utf-8"
    )
    staged = BENCHMARK.data.stage(tmp_path, "sample")
    assert {f"{dataset}/{name}": dialog for name, dialog in written(staged).items()} == raw
    of_raw = {d.dialog_id.partition("/")[2]: d for d in sample().dialogs if d.dialog_id in raw}
    for dialog in staged.dialogs:
        assert [(t.turn, t.content, t.metrics) for t in dialog.turns] == [
            (t.turn, t.content, t.metrics) for t in of_raw[dialog.dialog_id].turns
        ]


def test_what_has_no_column_is_kept_to_the_letter(tmp_path: Path) -> None:
    """Missing keys, keys of others, labels that are no text, turns after the last answer."""
    dialog = {
        "dialog_id": 7,
        "dialog_labels": {"level": 3, "easy": None, "_raw": "not ours"},
        "made_by": "hand",
        "dialog_turns": [
            {"turn_id": 0, "role": "system", "content": "Be brief."},
            {
                "turn_id": 1,
                "role": "user",
                "content": "One?",
                "mood": "calm",
                "turn_labels": {"_own": "x"},
            },
            {
                "turn_id": 2,
                "role": "assistant",
                "content": None,
                "eval_config": {"do_eval": True, "tries": 2},
            },
            {"turn_id": 3, "role": "user", "content": "Thanks."},
        ],
    }
    (tmp_path / "7.json").write_text(json.dumps(dialog), encoding="utf-8")
    staged = BENCHMARK.data.stage(tmp_path, "current")
    assert written(staged) == {"7": dialog}
    assert [
        (name, value) for name, value in staged.dialogs[0].labels if not name.startswith("_")
    ] == [("level", "3")]


def test_an_answer_that_was_filled_in_is_no_part_of_the_question(tmp_path: Path) -> None:
    """A run's own files give the same dialogues as those it was made from, under whichever setting
    is asked for.
    """
    before = json.loads(
        json.dumps(next(d for name, d in written(sample()).items() if name == "mt_eval/2"))
    )
    answered = json.loads(json.dumps(before))
    for turn in answered["dialog_turns"]:
        if turn["eval_config"]["do_eval"]:
            turn["content"] = "Surely."
    for place, dialog in (("data", before), ("run/generated", answered)):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "2.json").write_text(json.dumps(dialog), encoding="utf-8")
    (asked,), (filled,) = (
        BENCHMARK.data.stage(tmp_path / name, "current").dialogs for name in ("data", "run")
    )
    assert asked == filled
    assert labels_of(filled)["_dataset"] == ""
    assert all(BENCHMARK.data.plays(setting, filled) for setting in BENCHMARK.settings)
