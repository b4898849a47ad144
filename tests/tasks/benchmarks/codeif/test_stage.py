"""Raw files to dialogs and problems; every bad row is accounted for, with its reason."""

import gzip
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from schemas.content_id import content_id
from schemas.dialog import Role
from schemas.errors import SourceUnreadable
from tasks.benchmarks.codeif import BENCHMARK
from tasks.benchmarks.codeif.stage import stage
from tests.tasks.benchmarks.codeif.dialogues import raw_row, sample, write_rows
from tests.tasks.benchmarks.corrupted_rows import (
    check_staged_and_quarantined_rows_are_the_input_rows,
    corruptions,
)

NAME = "L_1_part_1.jsonl"
SAMPLE_LINES = (Path(str(BENCHMARK.data.sample)) / NAME).read_bytes().splitlines()


def test_a_row_becomes_a_problem_and_a_dialog(tmp_path: Path) -> None:
    row = raw_row()
    staged = stage(write_rows(tmp_path / NAME, row), "current")
    (problem,), (dialog,) = staged.problems, staged.dialogs
    assert problem.problem_id == dialog.problem_id == "function/1"
    assert [i.instruction_id for i in problem.instructions] == [
        "base", "Exception Handling", "Code Standard", "Functionality Extension",
    ]  # fmt: skip
    assert problem.instruction("Code Standard").suite.tests == ("assert True",)
    assert problem.instruction("Exception Handling").suite.tests == ("assert add", "assert 1")
    assert problem.reference_code == row["code"]
    assert (problem.source_file, problem.source_line) == (NAME, 1)
    assert problem.row_digest == dialog.row_digest == content_id(row)
    users = [turn for turn in dialog.turns if turn.role is Role.USER]
    assert [
        (t.turn, t.instruction_id, t.content, dict(t.labels)["strategy_slot"]) for t in users
    ] == [
        (1, "base", "Write add(a, b).", "1"),
        (2, "Exception Handling", "Raise TypeError.", "3"),
        (3, "Code Standard", "Follow PEP 8.", "7"),
    ]
    assert [t.content for t in dialog.turns if t.role is Role.ASSISTANT] == [None, None, None]


def test_v0_ends_with_functionality_extension_unless_its_list_places_it(tmp_path: Path) -> None:
    placed = raw_row(task_id=2, **{"multi-turn": ["Functionality Extension", "Code Standard"]})
    without = raw_row(task_id=3, **{"multi-turn": ["Code Standard"]})
    del without["requirements"]["Functionality Extension"]
    path = write_rows(tmp_path / NAME, raw_row(), placed, without)
    assert [d.instruction_ids for d in stage(path, "v0").dialogs] == [
        ("base", "Exception Handling", "Code Standard", "Functionality Extension"),
        ("base", "Functionality Extension", "Code Standard"),
        ("base", "Code Standard"),
    ]
    assert stage(path, "current").dialogs[0].instruction_ids == (
        "base",
        "Exception Handling",
        "Code Standard",
    )


def test_packages_are_those_that_the_tests_import(tmp_path: Path) -> None:
    row = raw_row(test=["from radon.complexity import cc_visit\nimport pycodestyle\nassert 1"])
    assert stage(write_rows(tmp_path / NAME, row), "current").problems[0].packages == (
        "pycodestyle",
        "radon",
    )


def without(*path: str) -> dict[str, Any]:
    row = raw_row()
    inner = row
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return row


def with_requirement(name: str, **changes: Any) -> dict[str, Any]:
    row = raw_row()
    row["requirements"][name] = {"requirement": "Do it.", "unit_test": ["assert 1"]} | changes
    return row


BAD_ROWS: dict[str, tuple[str, bytes | Mapping[str, Any]]] = {
    "cut off": ("broken_json", b'{"task_id": 1, "prompt": "x'),
    "NaN": ("broken_json", b'{"task_id": NaN}'),
    "nested too deeply": ("broken_json", b"[" * 100_000),
    "not UTF-8": ("not_utf8", b'{"prompt": "\xff\xfe"}'),
    "half a surrogate pair": ("lone_surrogate", json.dumps(raw_row(prompt="\ud800")).encode()),
    "a key twice": ("duplicate_key", b'{"task_id": 1, "task_id": 2}'),
    "a list": ("not_an_object", b"[1, 2]"),
    "no code": ("missing_field", without("code")),
    "no turn list": ("missing_field", without("multi-turn")),
    "no unit test": ("missing_field", without("requirements", "Code Standard", "unit_test")),
    "text as id": ("wrong_type", raw_row(task_id="1")),
    "truth as id": ("wrong_type", raw_row(task_id=True)),
    "negative id": ("wrong_type", raw_row(task_id=-1)),
    "number as prompt": ("wrong_type", raw_row(prompt=5)),
    "list of requirements": ("wrong_type", raw_row(requirements=["Code Standard"])),
    "number among tests": ("wrong_type", raw_row(test=["assert 1", 2])),
    "a number that no file can store": (
        "wrong_type",
        json.dumps(raw_row()).encode()[:-1] + b', "more": 1e999}',
    ),
    "blank prompt": ("blank_text", raw_row(prompt=" \n")),
    "blank requirement": ("blank_text", with_requirement("Code Standard", requirement="")),
    "no tests": ("empty_tests", raw_row(test=[])),
    "blank test": ("empty_tests", with_requirement("Code Standard", unit_test=" ")),
    "unknown requirement": ("unknown_requirement", with_requirement("Code Beauty")),
    "unknown turn": ("unknown_requirement", raw_row(**{"multi-turn": ["Code Beauty"]})),
    "turn without requirement": (
        "unknown_turn",
        raw_row(**{"multi-turn": ["Annotation Coverage"]}),
    ),
    "turn twice": ("duplicate_turn", raw_row(**{"multi-turn": ["Code Standard", "Code Standard"]})),
    "id seen before": ("duplicate_id", raw_row(task_id=7)),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_is_quarantined_with_its_place_and_the_rest_goes_on(
    case: str, tmp_path: Path
) -> None:
    reason, bad = BAD_ROWS[case]
    staged = stage(
        write_rows(tmp_path / NAME, raw_row(task_id=7), b"", bad, raw_row(task_id=8)), "current"
    )
    (row,) = staged.quarantined
    assert (row.reason, row.source_file, row.source_line) == (reason, NAME, 3)
    assert row.detail
    assert 0 < len(row.excerpt) <= 200
    assert [p.problem_id for p in staged.problems] == ["function/7", "function/8"]
    assert staged.n_input == 3


def test_a_wrong_field_is_named(tmp_path: Path) -> None:
    path = write_rows(tmp_path / NAME, with_requirement("Code Standard", unit_test=[1]), raw_row())
    (row,) = stage(path, "current").quarantined
    assert row.detail.startswith("requirements.Code Standard.unit_test.0: ")


def test_a_torn_gzip_keeps_the_rows_before_the_tear(tmp_path: Path) -> None:
    noisy = [raw_row(task_id=n, prompt=f"{content_id(n) * 2000}") for n in range(30)]
    whole = gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in noisy))
    (tmp_path / f"{NAME}.gz").write_bytes(whole[: len(whole) // 2])
    staged = stage(tmp_path, "current")
    assert [row.reason for row in staged.quarantined] == ["torn_gzip"]
    assert 0 < len(staged.problems) < 30
    assert staged.quarantined[0].source_line == len(staged.problems) + 1
    assert staged.n_input == len(staged.problems) + 1


def test_an_unreadable_file_among_several_is_a_quarantined_row(tmp_path: Path) -> None:
    write_rows(tmp_path / NAME, raw_row())
    (tmp_path / "L_1_part_1_more.jsonl").mkdir()
    staged = stage(tmp_path, "current")
    (row,) = staged.quarantined
    assert (row.reason, row.source_file, row.source_line) == (
        "unreadable_file",
        "L_1_part_1_more.jsonl",
        0,
    )
    assert (len(staged.problems), staged.n_input) == (1, 2)


def test_a_byte_order_mark_and_crlf_line_ends_are_not_part_of_a_row(tmp_path: Path) -> None:
    path = write_rows(
        tmp_path / NAME, b"\xef\xbb\xbf" + json.dumps(raw_row()).encode() + b"\r", b"\r"
    )
    assert stage(path, "current").problems[0].row_digest == content_id(raw_row())


def test_the_source_may_be_a_gz_file_by_any_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(raw_row()).encode()))
    assert stage(path, "current").problems[0].source_file == "mine.jsonl.gz"


@pytest.mark.parametrize(
    ("place", "version", "source"),
    [
        ("", "current", ""),
        ("function", "current", ""),
        ("v0/function", "v0", ""),
        ("v0/function", "v0", "v0"),
        ("v0/function", "v0", "v0/function"),
        ("function", "v0", ""),
    ],
)
def test_a_folder_is_searched_where_upstream_keeps_its_files(
    place: str, version: str, source: str, tmp_path: Path
) -> None:
    path = write_rows(tmp_path / place / NAME, raw_row())
    folder = tmp_path / source
    assert stage(folder, version).problems[0].source_file == path.relative_to(folder).as_posix()


def test_v0_and_current_of_one_repository_do_not_mix(tmp_path: Path) -> None:
    write_rows(tmp_path / "function" / NAME, raw_row(task_id=1))
    write_rows(tmp_path / "v0" / "function" / NAME, raw_row(task_id=2))
    found = {v: [p.problem_id for p in stage(tmp_path, v).problems] for v in ("current", "v0")}
    assert found == {"current": ["function/1"], "v0": ["function/2"]}
    assert [p.problem_id for p in stage(tmp_path / "function", "v0").problems] == ["function/2"]
    with pytest.raises(SourceUnreadable, match="--dataset-version v0"):
        stage(tmp_path / "v0", "current")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda d: d / "nowhere", "does not exist"),
        (lambda d: d, r"no L_1_part_1\*\.jsonl\[\.gz\] in .*function"),
        (lambda d: write_rows(d / "tasks.csv", b"a,b"), r"not a \.jsonl"),
        (lambda d: write_rows(d / NAME, b""), "no readable row"),
        (lambda d: write_rows(d / f"{NAME}.gz", b"not gzip"), "no readable row.*gzip"),
    ],
)
def test_a_source_of_which_nothing_can_be_read_is_one_clear_error(
    make: Any, told: str, tmp_path: Path
) -> None:
    with pytest.raises(SourceUnreadable, match=told) as caught:
        stage(make(tmp_path), "current")
    assert str(tmp_path) in str(caught.value)


DROPPED = ("prompt", "test", "code", "task_id", "requirements", "multi-turn")


@pytest.mark.slow
@settings(max_examples=150)
@given(corruptions(len(SAMPLE_LINES), DROPPED))
def test_staged_and_quarantined_rows_are_the_input_rows(
    tmp_path_factory: pytest.TempPathFactory, how: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("rows") / NAME
    check_staged_and_quarantined_rows_are_the_input_rows(stage, SAMPLE_LINES, how, path)


def test_every_kind_of_requirement_and_turn_list_stands_in_the_sample() -> None:
    staged = sample()
    assert (len(staged.problems), staged.quarantined) == (8, ())
    assert all(len(problem.instructions) == 8 for problem in staged.problems)
    assert {name for dialog in staged.dialogs for name in dialog.instruction_ids} == {
        i.instruction_id for i in staged.problems[0].instructions
    }
    assert sum(len(dialog.instruction_ids) for dialog in staged.dialogs) <= 40


@pytest.mark.shared
@pytest.mark.parametrize(("version", "n_follow_ups"), [("current", 348), ("v0", 293)])
def test_upstream_s_files_are_staged_whole(
    version: str, n_follow_ups: int, shared_data: Path
) -> None:
    staged = stage(shared_data / "codeif_bench" / "function", version)
    assert (len(staged.problems), staged.quarantined, staged.n_input) == (50, (), 50)
    assert sum(len(dialog.instruction_ids) - 1 for dialog in staged.dialogs) == n_follow_ups
    assert Counter(problem.source_file for problem in staged.problems).total() == 50
    assert all(not Path(problem.source_file).is_absolute() for problem in staged.problems)


@pytest.mark.shared
def test_all_of_upstream_s_tasks_and_instructions_are_staged(shared_data: Path) -> None:
    """The paper's Table 2 by level, also where its sum is another."""
    staged = stage(shared_data / "codeif_bench", "current")
    assert (len(staged.problems), staged.quarantined, staged.n_input) == (124, (), 124)
    assert Counter(problem.level for problem in staged.problems) == {"L1": 70, "L2": 40, "L3": 14}
    n_instructions = Counter[str]()
    for problem in staged.problems:
        n_instructions[problem.level] += len(problem.instructions) - 1
    assert n_instructions == {"L1": 487, "L2": 360, "L3": 126}
    turns = {
        level: [len(d.instruction_ids) for d in staged.dialogs if ("level", level) in d.labels]
        for level in ("L1", "L2", "L3")
    }
    assert [sum(n >= turn for n in turns["L1"]) for turn in range(1, 9)] == [
        70,
        70,
        70,
        70,
        70,
        69,
        69,
        65,
    ]
    assert set(turns["L2"]) == set(turns["L3"]) == {10}
