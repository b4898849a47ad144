"""Datasets read from their own files: sizes, what is asked and what is shown, rows that cannot be
staged.
"""

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from schemas.dialog import Role
from schemas.errors import SourceUnreadable
from tasks.benchmarks.unidial import BENCHMARK
from tasks.benchmarks.unidial.convert import labels_of
from tasks.benchmarks.unidial.datasets import DATASETS
from tests.tasks.benchmarks.unidial.played import context_of, dialogue, sample

SIZES = {
    "mt_eval": (10, 102),
    "mt_bench_101": (1388, 8416),
    "mathchat": (5276, 23742),
    "locomo": (1986, 1_223_559),
    "multi_challenge": (273, 2762),
    "safedialbench": (140, 1152),
}
"""Dialogues and turns of the data that we hold; MT-Bench-101, MathChat and LoCoMo are whole (paper,
Table 1).
"""
MEANS = {"mt_bench_101": 6.06, "mathchat": 4.50, "locomo": 616.09}


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("name", SIZES)
def test_a_dataset_has_its_size(name: str, shared_data: Path) -> None:
    staged = BENCHMARK.data.stage(shared_data / name, "current")
    n_turns = sum(len(dialog.turns) + dialog.context_turns for dialog in staged.dialogs)
    assert (len(staged.dialogs), n_turns) == SIZES[name]
    assert len(staged.problems) == staged.n_input
    assert staged.quarantined == ()
    assert name not in MEANS or round(n_turns / len(staged.dialogs), 2) == MEANS[name]


@pytest.mark.slow
@pytest.mark.shared
def test_memorycode_asks_what_upstream_asks_of_its_files(shared_data: Path) -> None:
    """Forty of 360 files: 139 queries; nine files have fewer queries than rules, and upstream
    leaves them out.
    """
    staged = BENCHMARK.data.stage(shared_data / "memorycode", "current")
    assert (len(staged.dialogs), len(staged.contexts), staged.n_input) == (139, 31, 148)
    assert Counter(bad.reason for bad in staged.quarantined) == {"unpaired_queries": 9}


@pytest.mark.shared
def test_locomo_is_the_same_in_either_layout(tmp_path: Path, shared_data: Path) -> None:
    with gzip.open(shared_data / "locomo" / "30.json.gz") as file:
        talk = json.load(file)
    conversation = {
        name: talk.pop(name) for name in list(talk) if name.startswith(("session_", "speaker_"))
    }
    (tmp_path / "one").mkdir()
    (tmp_path / "whole").mkdir()
    shutil.copy(shared_data / "locomo" / "30.json.gz", tmp_path / "one")
    whole = [{"sample_id": "30", "qa": talk["qa"], "conversation": conversation}]
    (tmp_path / "whole" / "locomo10.json").write_text(json.dumps(whole), encoding="utf-8")
    one, other = (BENCHMARK.data.stage(tmp_path / name, "current") for name in ("one", "whole"))
    assert [d.turns for d in one.dialogs] == [d.turns for d in other.dialogs]
    assert [c.context_id for c in one.contexts] == [c.context_id for c in other.contexts]


def test_runs_of_which_nobody_says_the_dataset_are_named_by_their_folders(tmp_path: Path) -> None:
    turns = [
        {"turn_id": 0, "role": "user", "content": "One?"},
        {"turn_id": 1, "role": "assistant", "eval_config": {"do_eval": True}},
    ]
    for name in ("red", "blue"):
        (tmp_path / name / "generated").mkdir(parents=True)
        (tmp_path / name / "generated" / "3.json").write_text(
            json.dumps({"dialog_id": 3, "dialog_turns": turns}), encoding="utf-8"
        )
    staged = BENCHMARK.data.stage(tmp_path, "current")
    assert sorted(dialog.dialog_id for dialog in staged.dialogs) == ["blue/3", "red/3"]
    assert staged.quarantined == ()


def test_the_sample_has_each_dataset() -> None:
    assert Counter(problem.level for problem in sample().problems).keys() == DATASETS.keys()
    assert sample().quarantined == ()
    for name in DATASETS:
        assert all(
            BENCHMARK.data.plays(name, d) == (d.dialog_id.startswith(f"{name}/"))
            for d in sample().dialogs
        )


@pytest.mark.parametrize(
    ("name", "rounds"),
    [
        ("mathchat/0", (1, 2, 3)),
        ("mathchat/1", (2,)),
        ("mt_bench_101/0", (1, 2)),
        ("mt_bench_101/1", (2,)),
        ("mt_eval/2", (2, 3)),
        ("multi_challenge/0", (2,)),
        ("safedialbench/0", (1, 2)),
        ("safedialbench/1", (2,)),
    ],
)
def test_only_turns_with_do_eval_are_asked_for(name: str, rounds: tuple[int, ...]) -> None:
    assert dialogue(name)[1].generated_turns == rounds


def test_a_talk_before_a_question_is_kept_once_with_its_dates() -> None:
    dialogs = [dialogue(f"locomo/{n}")[1] for n in range(4)]
    assert len({dialog.context_id for dialog in dialogs}) == 1
    before = context_of(dialogs[0])
    assert [(turn.role.value, turn.content) for turn in before[2:5]] == [
        ("user", "Biscuit. Look! [shared a photo of a brown dog]"),
        ("user", "DATE: 6:10 pm on 20 June, 2023"),
        ("assistant", "I moved to Lisbon last week."),
    ]
    last = dialogs[3].turns[-1]
    assert labels_of(last)["_references"] == ["no information available", "not mentioned"]


def test_a_question_goes_into_the_user_s_last_message(tmp_path: Path) -> None:
    talk = json.loads(
        (Path(str(BENCHMARK.data.sample)) / "locomo" / "1.json").read_text(encoding="utf-8")
    )
    talk["session_2"].append({"speaker": "Ida", "dia_id": "D2:4", "text": "Sounds steep."})
    (tmp_path / "1.json").write_text(json.dumps(talk), encoding="utf-8")
    dialog = BENCHMARK.data.stage(tmp_path, "current").dialogs[0]
    asked = next(turn.content or "" for turn in dialog.turns if turn.role is Role.USER)
    assert asked.startswith("Sounds steep.\n\nQuestion: ")
    assert dialog.context_turns == 7


NORMAL: dict[str, Any] = {
    "dialog_id": 0,
    "dialog_turns": [
        {"turn_id": 0, "role": "user", "content": "Hello?"},
        {
            "turn_id": 1,
            "role": "assistant",
            "reference": "Hi.",
            "eval_config": {"do_eval": True, "metrics": []},
        },
    ],
}


def changed(**turns: dict[str, Any]) -> dict[str, Any]:
    made = [turn | turns.get(f"turn_{n}", {}) for n, turn in enumerate(NORMAL["dialog_turns"])]
    return NORMAL | {"dialog_turns": made}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (changed(turn_0={"content": " "}), "blank_text"),
        (changed(turn_0={"role": "assistant"}), "no_alternation"),
        (changed(turn_1={"eval_config": {"do_eval": False}}), "nothing_to_answer"),
        (
            changed(
                turn_1={"eval_config": {"do_eval": True, "metrics": [{"class_name": "hamming"}]}}
            ),
            "unknown_metric",
        ),
        (changed(turn_0={"role": "robot"}), "wrong_type"),
        ({"dialog_turns": NORMAL["dialog_turns"]}, "missing_field"),
        (NORMAL | {"dialog_id": 1}, "duplicate_id"),
    ],
)
def test_a_dialogue_that_cannot_be_staged_is_quarantined_with_its_reason(
    tmp_path: Path, row: dict[str, Any], reason: str
) -> None:
    (tmp_path / "0.json").write_text(json.dumps(NORMAL | {"dialog_id": 1}), encoding="utf-8")
    (tmp_path / "1.json").write_text(json.dumps(row), encoding="utf-8")
    staged = BENCHMARK.data.stage(tmp_path, "current")
    assert [bad.reason for bad in staged.quarantined] == [reason]
    assert (len(staged.problems), staged.n_input) == (1, 2)


def test_a_folder_of_no_dataset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match="has no file of mt_eval"):
        BENCHMARK.data.stage(tmp_path, "current")


@pytest.mark.parametrize(
    ("name", "file", "find", "replacement", "reason"),
    [
        ("mt_eval", "documents.jsonl", '"gen_resp"', '"text"', "missing_field"),
        ("locomo", "1.json", '"qa": [', '"qa": 5, "questions": [', "wrong_type"),
        ("safedialbench", "datasets_en.jsonl", '"task": "Privacy"', '"task": ["Privacy"]', ""),
    ],
)
def test_a_faulty_field_costs_its_row_alone(
    tmp_path: Path, name: str, file: str, find: str, replacement: str, reason: str
) -> None:
    shutil.copytree(Path(str(BENCHMARK.data.sample)) / name, tmp_path, dirs_exist_ok=True)
    text = (tmp_path / file).read_text(encoding="utf-8")
    assert find in text
    (tmp_path / file).write_text(text.replace(find, replacement, 1), encoding="utf-8")
    if name == "locomo":
        (tmp_path / "2.json").write_text(text, encoding="utf-8")
    staged = BENCHMARK.data.stage(tmp_path, "sample")
    assert [bad.reason for bad in staged.quarantined] == ([reason] if reason else [])
    assert staged.problems


def test_a_file_with_broken_compression_is_quarantined(tmp_path: Path) -> None:
    text = (Path(str(BENCHMARK.data.sample)) / "memorycode" / "dialogue_1.json").read_bytes()
    packed = bytearray(gzip.compress(text))
    packed[12:20] = b"\xff" * 8
    (tmp_path / "dialogue_1.json").write_bytes(text)
    (tmp_path / "dialogue_2.json.gz").write_bytes(packed)
    staged = BENCHMARK.data.stage(tmp_path, "sample")
    assert [bad.reason for bad in staged.quarantined] == ["unreadable_file"]
    assert staged.problems
