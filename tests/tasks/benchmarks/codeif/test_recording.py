"""Upstream's published answers as a recording."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import SourceUnreadable, UnknownName
from tasks.benchmarks.codeif import BENCHMARK, SAMPLE_REPOSITORIES
from tasks.benchmarks.codeif.recording import LEVEL_1, import_recording, recorded_data
from tasks.language.recorded_model import RecordedAnswer
from tests.tasks.benchmarks.codeif.dialogues import write_rows


def base(task: int, text: str) -> dict[str, Any]:
    return {"task_id": task, "completion": text}


def follow_up(task: int, requirement: str, text: str) -> dict[str, Any]:
    return {"task_id": task, "requirement": requirement, "completion": text}


BASE = (base(3, "a"), base(4, "b"))
FOLLOW_UPS = (
    follow_up(3, "Code Standard", "c"),
    follow_up(4, "Code Complexity", "d"),
    follow_up(3, "Code Complexity", "e"),
)


@pytest.fixture
def experiments(tmp_path: Path) -> Path:
    write_rows(tmp_path / "base" / "m" / "m1.jsonl", *BASE)
    write_rows(tmp_path / "base" / "m" / "m1.jsonl_results.jsonl", b"verdicts")
    write_rows(tmp_path / "base" / "other" / "o.jsonl", *BASE)
    packed = gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in FOLLOW_UPS))
    (tmp_path / "n_round" / "m").mkdir(parents=True)
    (tmp_path / "n_round" / "m" / "m_n.jsonl.gz").write_bytes(packed)
    write_rows(tmp_path / "n_round" / "m" / "m_n.jsonl_Code Standard_results.jsonl", b"verdicts")
    return tmp_path


def test_base_is_turn_one_and_n_round_rows_follow_in_file_order(experiments: Path) -> None:
    assert list(import_recording(experiments, "m")) == [
        RecordedAnswer("function/3", 1, "a"),
        RecordedAnswer("function/3", 2, "c"),
        RecordedAnswer("function/3", 3, "e"),
        RecordedAnswer("function/4", 1, "b"),
        RecordedAnswer("function/4", 2, "d"),
    ]


def test_an_unknown_model_lists_those_that_have_both_parts(experiments: Path) -> None:
    with pytest.raises(UnknownName, match=r"'M'; known: m. Do you mean m\?$"):
        import_recording(experiments, "M")


def test_another_folder_says_which_one_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match=r"function/Experiments.*repo/Experiments/level_1"):
        import_recording(tmp_path, "m")


def test_a_row_repeated_word_for_word_counts_once(experiments: Path) -> None:
    write_rows(experiments / "base" / "m" / "m1.jsonl", *BASE, BASE[0])
    assert len(list(import_recording(experiments, "m"))) == 5


@pytest.mark.parametrize(
    ("part", "rows", "told"),
    [
        ("base", (*BASE, base(3, "other")), r"m1\.jsonl:3: task 3 has a second base answer"),
        ("base", BASE[:1], r"task 4 has no base answer"),
        ("base", (*BASE, b'{"task_id": 5'), r"m1\.jsonl:3: broken_json"),
        ("base", ({"task_id": "3", "completion": "a"},), r"m1\.jsonl:1: wrong_type: task_id"),
        (
            "n_round",
            (follow_up(3, "Code Beauty", "x"),),
            r"requirement: unknown requirement; known: .*Code Standard",
        ),
        (
            "n_round",
            (*FOLLOW_UPS, follow_up(3, "Code Standard", "x")),
            "second answer for 'Code Standard'",
        ),
    ],
)
def test_rows_that_cannot_be_placed_are_refused_with_file_and_line(
    part: str, rows: tuple[Any, ...], told: str, experiments: Path
) -> None:
    if part == "n_round":
        (experiments / "n_round" / "m" / "m_n.jsonl.gz").unlink()
    write_rows(experiments / part / "m" / ("m1.jsonl" if part == "base" else "m_n.jsonl"), *rows)
    with pytest.raises(SourceUnreadable, match=told):
        import_recording(experiments, "m")


@pytest.mark.parametrize(("part", "name"), [("base", "m1.jsonl"), ("n_round", "m_n.jsonl.gz")])
def test_a_model_without_answer_files_is_refused(part: str, name: str, experiments: Path) -> None:
    (experiments / part / "m" / name).unlink()
    with pytest.raises(SourceUnreadable, match=rf"{part}/m holds no answers"):
        import_recording(experiments, "m")


@pytest.mark.shared
@pytest.mark.parametrize("model", ["qwen2.5-7b-instruct", "deepseek-chat"])
def test_published_runs_have_an_answer_for_every_round_of_v0(model: str, shared_data: Path) -> None:
    answers = list(
        import_recording(shared_data / "codeif_bench" / "function" / "Experiments", model)
    )
    assert len(answers) == len({(a.problem_id, a.turn) for a in answers}) == 343


def repository_runs(folder: Path) -> Path:
    runs = folder / "repo" / "Experiments" / "level_1"
    (runs / "m" / "base").mkdir(parents=True)
    base = [{"namespace": "ledger.money.parse_cents", "completion": "a"}]
    (runs / "m" / "base" / "result.jsonl").write_text(json.dumps(base, indent=1), encoding="utf-8")
    said = [
        {"namespace": "ledger.money.parse_cents", "type": kind, "completion": text}
        for kind, text in REPOSITORY_ANSWERS
    ]
    write_rows(runs / "m" / "n_round" / "result.jsonl", *said, said[0])
    task = (
        Path(str(BENCHMARK.data.bundled[SAMPLE_REPOSITORIES])) / "L_1_part_2.jsonl"
    ).read_bytes()
    (folder / "repo" / "L_1_part_2.jsonl").write_bytes(task)
    return runs


REPOSITORY_ANSWERS = (("Exception Handling", "b"), ("Code Standard", "c"))


def test_runs_of_repository_tasks_have_a_folder_for_each_model(tmp_path: Path) -> None:
    runs = repository_runs(tmp_path)
    assert list(import_recording(runs, "m")) == [
        RecordedAnswer("repo/ledger.money.parse_cents", turn, text)
        for turn, text in enumerate("abc", 1)
    ]
    with pytest.raises(UnknownName, match="m"):
        import_recording(runs, "n")


def test_answers_that_differ_are_refused_and_separators_within_a_line_do_not_tear_it(
    tmp_path: Path,
) -> None:
    runs = repository_runs(tmp_path)
    path = runs / "m" / "n_round" / "result.jsonl"
    row = {
        "namespace": "ledger.money.parse_cents",
        "type": "Exception Handling",
        "completion": "b\u2028\x85c",
    }
    path.write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    assert [answer.content for answer in import_recording(runs, "m")] == ["a", "b\u2028\x85c"]
    write_rows(path, row, row | {"completion": "another"})
    with pytest.raises(SourceUnreadable, match="second answer for 'Exception Handling'"):
        import_recording(runs, "m")
    with pytest.raises(SourceUnreadable, match="second answer"):
        BENCHMARK.data.stage(tmp_path, LEVEL_1)
    first = {"namespace": "ledger.money.parse_cents", "completion": "a"}
    write_rows(path, row)
    write_rows(runs / "m" / "base" / "result.jsonl", first, first, first | {"completion": "b"})
    with pytest.raises(SourceUnreadable, match="second base answer"):
        import_recording(runs, "m")


def test_they_are_played_again_with_the_turns_that_they_had(tmp_path: Path) -> None:
    runs = repository_runs(tmp_path)
    beside = recorded_data(runs)
    assert beside == (tmp_path / "repo", LEVEL_1)
    (dialog,) = BENCHMARK.data.stage(*beside).dialogs
    assert dialog.instruction_ids == ("base", "Exception Handling", "Code Standard")
    (today,) = BENCHMARK.data.stage(tmp_path, "current").dialogs
    assert len(today.instruction_ids) > 3
    assert today.digest != dialog.digest


def test_without_published_runs_there_are_no_turns_of_theirs(tmp_path: Path) -> None:
    runs = repository_runs(tmp_path)
    runs.rename(tmp_path / "elsewhere")
    with pytest.raises(SourceUnreadable, match="published runs"):
        BENCHMARK.data.stage(tmp_path, LEVEL_1)
