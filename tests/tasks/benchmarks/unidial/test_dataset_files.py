"""All files of PersonaMem and LongMemEval are staged: their splits, each of its own size, numbered
one after another.
"""

import csv
import gzip
import json
from importlib.resources import as_file
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import SourceUnreadable
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.raw_rows import BadRow
from tasks.benchmarks.unidial import BENCHMARK
from tasks.benchmarks.unidial.convert import to_normal_dialog
from tasks.benchmarks.unidial.datasets import source

SPLITS = ("32k", "128k", "1M")
ROW = {
    "persona_id": "1",
    "question_type": "recall",
    "topic": "food",
    "user_question_or_message": "What should I eat?",
    "correct_answer": "(b)",
    "all_options": "(a) fish (b) rice",
    "distance_to_ref_proportion_in_context": "10%",
}


def talk(name: str, n: int) -> list[dict[str, str]]:
    """Messages of a persona, one of the system's among the later ones."""
    said = [{"role": ("user", "assistant")[k % 2], "content": f"{name} {k}"} for k in range(n)]
    return [
        {"role": "system", "content": f"{name} likes rice"},
        *said[:4],
        {"role": "system", "content": "again"},
        *said[4:],
    ]


def write_split(folder: Path, split: str, ends: dict[str, list[int]], n_said: int = 30) -> None:
    with (folder / f"questions_{split}.csv").open("w", encoding="utf-8", newline="") as file:
        columns = ("question_id", "shared_context_id", "end_index_in_shared_context", *ROW)
        table = csv.DictWriter(file, columns)
        table.writeheader()
        for name, places in ends.items():
            for end in places:
                own = {
                    "question_id": f"{name}{end}",
                    "shared_context_id": name,
                    "end_index_in_shared_context": end,
                }
                table.writerow(own | ROW)
    lines = (json.dumps({name: talk(name, n_said)}) for name in ends)
    (folder / f"shared_contexts_{split}.jsonl").write_text("\n".join(lines), encoding="utf-8")


def turns_of(staged: Staged) -> dict[str, list[tuple[int, str, str | None]]]:
    """Dialogue -> its turns: id, role, content."""
    contexts = {context.context_id: context.turns for context in staged.contexts}
    found = {
        d.dialog_id: to_normal_dialog(d, contexts[d.context_id] if d.context_id else ())
        for d in staged.dialogs
    }
    return {
        name: [(turn["turn_id"], turn["role"], turn["content"]) for turn in dialog["dialog_turns"]]
        for name, dialog in found.items()
    }


@pytest.fixture
def personamem(tmp_path: Path) -> Path:
    for split in SPLITS:
        write_split(tmp_path, split, {"Ann": [0, 1, 3, 12, 33], "Bob": [32]})
    return tmp_path


def test_every_split_of_personamem_is_staged(personamem: Path) -> None:
    staged = BENCHMARK.data.stage(personamem, "current")
    assert not staged.quarantined
    assert [dict(d.labels)["task_type"] for d in staged.dialogs] == [
        split for split in SPLITS for _ in range(6)
    ]
    assert [d.dialog_id for d in staged.dialogs] == [str(number) for number in range(18)]


def test_the_splits_differ_in_their_files_alone(personamem: Path) -> None:
    """A long split keeps each talk once; what is said before a question is the same."""
    staged = BENCHMARK.data.stage(personamem, "current")
    turns = turns_of(staged)
    for place, end in enumerate([0, 1, 3, 12, 33]):
        told = [
            one for k, one in enumerate(talk("Ann", 30)[:end]) if k == 0 or one["role"] != "system"
        ]
        wanted = [(n, one["role"], one["content"]) for n, one in enumerate(told)]
        for first in (0, 6, 12):
            dialog = turns[str(first + place)]
            assert dialog[:-2] == wanted
            assert [(n, role) for n, role, _ in dialog[-2:]] == [
                (len(told), "user"),
                (len(told) + 1, "assistant"),
            ]


def test_a_talk_of_a_long_split_is_kept_once(personamem: Path) -> None:
    staged = BENCHMARK.data.stage(personamem / "questions_1M.csv", "current")
    assert len(staged.contexts) == 2
    assert [d.context_turns for d in staged.dialogs] == [0, 0, 2, 10, 30, 30]


@pytest.mark.parametrize("name", ["questions_128k.csv", "shared_contexts_128k.jsonl"])
def test_either_file_of_a_split_stands_for_both(personamem: Path, name: str) -> None:
    staged = BENCHMARK.data.stage(personamem / name, "current")
    assert {dict(d.labels)["task_type"] for d in staged.dialogs} == {"128k"}


def test_a_faulty_message_costs_the_questions_of_its_talk(personamem: Path) -> None:
    lines = (personamem / "shared_contexts_128k.jsonl").read_text(encoding="utf-8").splitlines()
    lines[0] = json.dumps({"Ann": [*talk("Ann", 30)[:-1], {"role": "user"}]})
    (personamem / "shared_contexts_128k.jsonl").write_text("\n".join(lines), encoding="utf-8")
    staged = BENCHMARK.data.stage(personamem / "questions_128k.csv", "current")
    assert [row.reason for row in staged.quarantined] == ["missing_field"] * 5
    assert len(staged.dialogs) == 1


def longmemeval_rows() -> list[dict[str, Any]]:
    with as_file(BENCHMARK.data.sample) as folder:
        return json.loads(
            (folder / "longmemeval" / "longmemeval_s_cleaned.json").read_text(encoding="utf-8")
        )


def test_every_part_of_longmemeval_is_staged(tmp_path: Path) -> None:
    rows = longmemeval_rows()
    names = (
        "longmemeval_oracle.json",
        "longmemeval_m_cleaned.json",
        "longmemeval_s_cleaned.json",
        "longmemeval_s.json",
    )
    for name in names:
        (tmp_path / name).write_text(json.dumps(rows), encoding="utf-8")
    staged = BENCHMARK.data.stage(tmp_path, "current")
    parts = [f"longmemeval_{part}" for part in ("s", "m", "oracle") for _ in rows]
    assert [dict(d.labels)["task_type"] for d in staged.dialogs] == parts
    assert [d.dialog_id for d in staged.dialogs] == [str(number) for number in range(len(parts))]


@pytest.mark.parametrize("part", ["m_cleaned", "oracle", "m"])
def test_a_part_of_longmemeval_is_staged_alone(tmp_path: Path, part: str) -> None:
    rows = longmemeval_rows()
    (tmp_path / "longmemeval_s_cleaned.json").write_text(json.dumps(rows), encoding="utf-8")
    packed = tmp_path / f"longmemeval_{part}.json.gz"
    packed.write_bytes(gzip.compress(json.dumps(rows[:1]).encode()))
    (dialog,) = BENCHMARK.data.stage(packed, "current").dialogs
    assert dict(dialog.labels)["task_type"] == f"longmemeval_{part.partition('_')[0]}"


@pytest.mark.parametrize("chunk", [1, 7, 100, 1_000_000])
def test_a_list_is_read_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(source, "_CHUNK", chunk)
    path = tmp_path / "list.json"
    for rows in ([], [{}], [{"a": [1, "],"]}, [], "é\\", 12.5, None], longmemeval_rows()):
        for text in (json.dumps(rows), json.dumps(rows, indent=2, ensure_ascii=False) + "\n"):
            path.write_text(text, encoding="utf-8")
            assert list(source.read_json_list(path)) == rows


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "wrong_type"),
        (b'{"a": 1}', "wrong_type"),
        (b"[1, 2", "broken_json"),
        (b"[1 2]", "broken_json"),
        (b"[" * 100_000, "broken_json"),
        (b'["\xff"]', "not_utf8"),
    ],
)
def test_what_is_no_list_is_named(tmp_path: Path, text: bytes, reason: str) -> None:
    path = tmp_path / "list.json"
    path.write_bytes(text)
    with pytest.raises(BadRow) as fault:
        list(source.read_json_list(path))
    assert fault.value.reason == reason


def test_a_file_that_ends_early_names_its_missing_end(tmp_path: Path) -> None:
    path = tmp_path / "longmemeval_oracle.json"
    path.write_text(json.dumps(longmemeval_rows())[:-40], encoding="utf-8")
    staged = BENCHMARK.data.stage(path, "current")
    assert [row.reason for row in staged.quarantined] == ["broken_json"]
    assert len(staged.dialogs) == len(longmemeval_rows()) - 1


@pytest.mark.parametrize(
    "place",
    ["", "data", "data/by_task", "data/by_task/english", "data/by_task/english/ethics.jsonl"],
)
def test_safedialbench_s_tasks_are_found_from_each_folder_of_the_repository(
    place: str, tmp_path: Path
) -> None:
    """The repository's prompts have the tasks' names."""
    sample = Path(str(BENCHMARK.data.sample)) / "safedialbench" / "datasets_en.jsonl"
    for folder in ("data/by_task/english", "evaluate_prompts"):
        (tmp_path / folder).mkdir(parents=True)
    tasks = tmp_path / "data" / "by_task" / "english" / "ethics.jsonl"
    tasks.write_bytes(sample.read_bytes())
    (tmp_path / "evaluate_prompts" / "ethics.jsonl").write_text('{"prompt": "Rate this."}\n')
    staged = BENCHMARK.data.stage(tmp_path / place, "x")
    assert len(staged.problems) == sample.read_text(encoding="utf-8").count("\n")
    assert not staged.quarantined


def test_safedialbench_s_complete_files_are_preferred(tmp_path: Path) -> None:
    sample = (Path(str(BENCHMARK.data.sample)) / "safedialbench" / "datasets_en.jsonl").read_bytes()
    for name in ("complete/datasets_en.jsonl", "by_task/english/ethics.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(sample)
    staged = BENCHMARK.data.stage(tmp_path, "x")
    assert len(staged.problems) == sample.count(b"\n")


def test_mt_eval_s_ablations_are_no_tasks(tmp_path: Path) -> None:
    sample = Path(str(BENCHMARK.data.sample)) / "mt_eval"
    for path in sample.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    ablation = tmp_path / "refinement_ablation_irrelevant-front.jsonl"
    row = {"user": "Is green a colour?", "sys": "Yes.", "id": "e0e9bd", "do_inference": False}
    ablation.write_text(json.dumps({"id": "1", "conv": [row], "n_distracts": 1}), encoding="utf-8")
    staged, before = BENCHMARK.data.stage(tmp_path, "x"), BENCHMARK.data.stage(sample, "x")
    assert staged.problems == before.problems
    assert not staged.quarantined
    with pytest.raises(SourceUnreadable, match="has no file of mt_eval"):
        BENCHMARK.data.stage(ablation, "x")
