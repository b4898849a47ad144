"""Rows in BigCodeBench's form to problems and live dialogs; every bad row is accounted for, with
its reason.
"""

import ast
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from sandbox.judging.runners.python_tests import case_classes, method_names
from schemas.dialog import Role
from tasks.benchmarks.convcode.stage import stage
from tests.tasks.benchmarks.convcode.raw_rows import (
    SAMPLE,
    TEST,
    raw_row,
    sample,
    write_parquet,
    write_rows,
)
from tests.tasks.benchmarks.corrupted_rows import (
    check_staged_and_quarantined_rows_are_the_input_rows,
    corruptions,
)

NAME = "BigCodeBench.jsonl"
SAMPLE_LINES = next(SAMPLE.glob("*.jsonl")).read_bytes().splitlines()


def test_a_row_becomes_a_problem_and_a_live_dialog(tmp_path: Path) -> None:
    staged = stage(write_rows(tmp_path / NAME, raw_row()), "bigcodebench")
    (problem,), (dialog,) = staged.problems, staged.dialogs
    assert problem.problem_id == dialog.problem_id == dialog.dialog_id == "BigCodeBench/0"
    assert (problem.benchmark, problem.dataset_version, problem.level) == (
        "convcode",
        "bigcodebench",
        "all",
    )
    assert problem.prompt == "Give one."
    (base,) = problem.instructions
    assert (base.instruction_id, base.text, base.suite.kind, base.suite.tests) == (
        "base",
        "Give one.",
        "unittest",
        (TEST,),
    )
    assert problem.reference_code == "import math\n\ndef task_func():\n    return 1\n"
    assert problem.packages == ("numpy", "scikit-learn")
    assert (problem.source_file, problem.source_line) == (NAME, 1)
    assert [(turn.turn, turn.role, turn.content) for turn in dialog.turns] == [
        (1, Role.USER, "Give one."),
        (1, Role.ASSISTANT, None),
    ]
    assert dialog.instruction_ids == ("base",)
    assert dict(dialog.labels) == {"part": "live"}
    assert dialog.row_digest == problem.row_digest


@pytest.mark.parametrize("head", ["def task_func():", "def task_func():\n"])
def test_head_and_body_of_the_gold_program_stand_on_lines_of_their_own(
    head: str, tmp_path: Path
) -> None:
    staged = stage(write_rows(tmp_path / NAME, raw_row(code_prompt=head)), "bigcodebench")
    assert staged.problems[0].reference_code == "def task_func():\n    return 1\n"


def test_a_task_has_one_digest_in_whatever_file_it_lies(tmp_path: Path) -> None:
    listed = raw_row(libs=["math", "sklearn.svm", "numpy"], doc_struct=None, more=1.5)
    found = [
        stage(write_rows(tmp_path / "a" / NAME, raw_row()), "bigcodebench"),
        stage(write_rows(tmp_path / "b" / NAME, listed), "bigcodebench"),
        stage(write_parquet(tmp_path / "c.parquet", raw_row()), "bigcodebench"),
        stage(write_parquet(tmp_path / "d.parquet", listed), "bigcodebench"),
    ]
    assert len({staged.problems[0].row_digest for staged in found}) == 1


@pytest.mark.parametrize(
    "field", ["instruct_prompt", "code_prompt", "canonical_solution", "test", "task_id"]
)
def test_what_can_change_an_episode_or_verdict_changes_the_digest(
    field: str, tmp_path: Path
) -> None:
    other = raw_row(**{field: raw_row()[field] + "\n# more"})
    digests = {
        stage(write_rows(tmp_path / NAME, row), "bigcodebench").problems[0].row_digest
        for row in (raw_row(), other)
    }
    assert len(digests) == 2


BAD_ROWS: dict[str, tuple[str, bytes | Mapping[str, Any]]] = {
    "cut off": ("broken_json", b'{"task_id": 1, "prompt": "x'),
    "NaN": ("broken_json", b'{"task_id": NaN}'),
    "not UTF-8": ("not_utf8", b'{"task_id": "\xff\xfe"}'),
    "half a surrogate pair": (
        "lone_surrogate",
        json.dumps(raw_row(instruct_prompt="\ud800")).encode(),
    ),
    "a key twice": ("duplicate_key", b'{"task_id": "a", "task_id": "b"}'),
    "a list": ("not_an_object", b"[1, 2]"),
    "no tests": ("missing_field", raw_row(test=None)),
    "no instruction": ("missing_field", raw_row(instruct_prompt=None)),
    "number as id": ("wrong_type", raw_row(task_id=3)),
    "a text that is no list as libs": ("wrong_type", raw_row(libs="numpy, pandas")),
    "a call as libs": ("wrong_type", raw_row(libs="__import__('os').getpid()")),
    "number among libs": ("wrong_type", raw_row(libs="['numpy', 3]")),
    "blank instruction": ("blank_text", raw_row(instruct_prompt=" \n")),
    "blank solution": ("blank_text", raw_row(canonical_solution="")),
    "tests that are not Python": (
        "bad_tests",
        raw_row(test="class TestCases(unittest.TestCase)\n"),
    ),
    "tests with a null byte": ("bad_tests", raw_row(test=TEST + "\0")),
    "tests that are too deep": ("bad_tests", raw_row(test="-" * 100_000 + "1")),
    "a class without a test": ("bad_tests", raw_row(test=TEST.replace("test_case_1", "helper"))),
    "functions for tests": (
        "bad_tests",
        raw_row(test="def test_one():\n    assert task_func() == 1\n"),
    ),
    "id seen before": ("duplicate_id", raw_row(task_id="Task/7")),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_is_quarantined_with_its_place_and_the_rest_goes_on(
    case: str, tmp_path: Path
) -> None:
    reason, bad = BAD_ROWS[case]
    path = write_rows(
        tmp_path / NAME, raw_row(task_id="Task/7"), b"", bad, raw_row(task_id="Task/8")
    )
    staged = stage(path, "bigcodebench")
    (row,) = staged.quarantined
    assert (row.reason, row.source_file, row.source_line) == (reason, NAME, 3)
    assert row.detail
    assert 0 < len(row.excerpt) <= 200
    assert [p.problem_id for p in staged.problems] == ["Task/7", "Task/8"]
    assert staged.n_input == 3


def test_a_torn_gzip_keeps_the_rows_before_the_tear(tmp_path: Path) -> None:
    rows = [
        raw_row(task_id=f"Task/{n}", instruct_prompt=f"{n} " + "ab" * n * 999) for n in range(40)
    ]
    whole = gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    (tmp_path / f"{NAME}.gz").write_bytes(whole[: len(whole) // 2])
    staged = stage(tmp_path, "bigcodebench")
    assert [row.reason for row in staged.quarantined] == ["torn_gzip"]
    assert 0 < len(staged.problems) < 40
    assert staged.n_input == len(staged.problems) + 1


DROPPED = ("task_id", "instruct_prompt", "code_prompt", "canonical_solution", "test", "libs")


@settings(max_examples=60)
@given(corruptions(len(SAMPLE_LINES), DROPPED))
@pytest.mark.slow
def test_staged_and_quarantined_rows_are_the_input_rows(
    tmp_path_factory: pytest.TempPathFactory, how: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("rows") / NAME
    check_staged_and_quarantined_rows_are_the_input_rows(stage, SAMPLE_LINES, how, path)


def test_the_sample_holds_what_the_nine_settings_need() -> None:
    staged = sample()
    assert (len(staged.problems), staged.quarantined) == (10, ())
    texts = {
        problem.problem_id: problem.instructions[0].suite.tests[0] for problem in staged.problems
    }
    n_methods = {task: len(method_names(text)) for task, text in texts.items()}
    assert set(n_methods.values()) <= {4, 5, 6}
    with_set_up = [
        task for task, text in texts.items() if "setUp" in case_classes(text)["TestCases"]
    ]
    with_temporary_file = [
        problem.problem_id for problem in staged.problems if "tempfile" in problem.reference_code
    ]
    assert with_set_up == ["Sample/3", "Sample/10"]
    assert with_temporary_file == ["Sample/4"]
    assert {package for problem in staged.problems for package in problem.packages} == {
        "numpy",
        "pandas",
    }


def test_the_sample_s_rows_have_every_field_of_the_published_ones() -> None:
    for row in map(json.loads, SAMPLE_LINES):
        assert tuple(row) == tuple(raw_row())
        ast.parse(row["complete_prompt"] + row["canonical_solution"])
        assert row["code_prompt"] in row["instruct_prompt"]
        assert set(ast.literal_eval(row["libs"])) == set(json.loads(row["doc_struct"])["reqs"])
