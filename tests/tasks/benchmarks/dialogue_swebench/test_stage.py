"""Rows of SWE-bench's format become problems and dialogues, or go to quarantine with their
reason.
"""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.errors import ConfigError, SourceUnreadable
from tasks.benchmarks.dialogue_swebench import BENCHMARK
from tasks.benchmarks.dialogue_swebench.cast import draw_persona, personas
from tasks.benchmarks.dialogue_swebench.resources import read_environments, resolve_resources
from tasks.benchmarks.dialogue_swebench.stage import stage
from tasks.storage.files.trees import TreeStore
from tasks.storage.home import Home
from tests.tasks.benchmarks.dialogue_swebench.graded import SAMPLE, furnished_sample

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (SAMPLE / "sample.jsonl").read_text(encoding="utf-8").splitlines()
]


def written(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_the_forms_of_the_data_give_the_same_problems(tmp_path: Path):
    flat = [
        {
            **row,
            "FAIL_TO_PASS": json.dumps(row["FAIL_TO_PASS"]),
            "PASS_TO_PASS": json.dumps(row["PASS_TO_PASS"]),
        }
        for row in ROWS
    ]
    with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(flat[0]))
        writer.writeheader()
        writer.writerows(flat)
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    staged = [
        stage(path, "x")
        for path in (written(tmp_path, ROWS), tmp_path / "rows.csv", tmp_path / "rows.parquet")
    ]
    assert [len(one.problems) for one in staged] == [3, 3, 3]
    assert {tuple(problem.row_digest for problem in one.problems) for one in staged} == {
        tuple(problem.row_digest for problem in staged[0].problems)
    }


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("base_commit", "main", "no_commit"),
        ("patch", "I would change the sign", "no_diff"),
        ("FAIL_TO_PASS", "[not json", "broken_test_list"),
        ("problem_statement", " ", "blank_text"),
        ("instance_id", None, "wrong_type"),
        ("instance_id", ROWS[1]["instance_id"], "duplicate_id"),
    ],
)
def test_a_bad_row_is_quarantined(tmp_path: Path, field: str, value: object, reason: str):
    staged = stage(written(tmp_path, [ROWS[1], {**ROWS[0], field: value}]), "x")
    assert [row.reason for row in staged.quarantined] == [reason]
    assert (len(staged.problems), staged.n_input) == (1, 2)


def test_a_row_without_tests_is_quarantined(tmp_path: Path):
    staged = stage(
        written(tmp_path, [ROWS[1], {**ROWS[0], "FAIL_TO_PASS": [], "PASS_TO_PASS": []}]), "x"
    )
    assert [row.reason for row in staged.quarantined] == ["no_tests"]


def test_the_progress_of_pytest_is_no_test(tmp_path: Path):
    """As in the rows pytest-5262 and pytest-7521 of SWE-bench Verified."""
    names = ROWS[0]["PASS_TO_PASS"]
    row = {**ROWS[0], "PASS_TO_PASS": ["[100%]", *names, "[ 83%]"]}
    staged = [stage(written(tmp_path, [one]), "x") for one in (ROWS[0], row)]
    plain, with_progress = (one.problems[0] for one in staged)
    assert with_progress.repo == plain.repo
    assert with_progress.row_digest == plain.row_digest


def test_a_first_message_comes_from_the_row_the_file_beside_or_the_title(tmp_path: Path):
    (tmp_path / "queries.jsonl").write_text(
        json.dumps({"instance_id": ROWS[1]["instance_id"], "query": "Beside."}) + "\n"
    )
    rows = [
        ROWS[0],
        *({name: value for name, value in row.items() if name != "query"} for row in ROWS[1:]),
    ]
    staged = stage(written(tmp_path, rows), "x")
    said = [(dialog.turns[0].content, dict(dialog.labels)["query"]) for dialog in staged.dialogs]
    assert said[0] == (ROWS[0]["query"], "data")
    assert said[1] == ("Beside.", "data")
    assert said[2] == ("I have a problem with retrier: retry() goes on after the deadline", "title")


def test_a_line_without_a_message_leaves_the_title_and_another_type_is_named(tmp_path: Path):
    rows = [{name: value for name, value in ROWS[0].items() if name != "query"}]
    beside = tmp_path / "queries.jsonl"
    beside.write_text(json.dumps({"instance_id": ROWS[0]["instance_id"], "query": None}) + "\n")
    (dialog,) = stage(written(tmp_path, rows), "x").dialogs
    assert dict(dialog.labels)["query"] == "title"
    assert "None" not in (dialog.turns[0].content or "")
    beside.write_text(json.dumps({"instance_id": ROWS[0]["instance_id"], "query": 3}) + "\n")
    with pytest.raises(SourceUnreadable, match="line 1: instance_id and query must be texts"):
        stage(written(tmp_path, rows), "x")


def test_personas_are_drawn_by_the_instance_alone():
    assert (len(personas().names), len(personas().descriptions)) == (38, 5)
    drawn = {draw_persona(f"instance-{number}") for number in range(500)}
    assert drawn == {draw_persona(f"instance-{number}") for number in range(500)}
    assert {kind for kind, _ in drawn} == set(personas().descriptions)
    assert len(drawn) > 150


def test_what_a_run_needs_must_be_named(tmp_path: Path):
    staged = stage(SAMPLE, "sample")
    with pytest.raises(ConfigError, match="--resource repos=DIR"):
        resolve_resources(staged, None, {}, Home(tmp_path))
    with pytest.raises(SourceUnreadable, match="contains no repository"):
        resolve_resources(staged, None, {"repos": tmp_path}, Home(tmp_path))


def test_a_commit_that_nobody_has_and_a_version_without_pins_are_quarantined(tmp_path: Path):
    rows = [{**ROWS[0], "base_commit": "0" * 40}, ROWS[1], {**ROWS[2], "version": "9"}]
    pins = {
        "python": "3.11",
        "environments": {"one": {"versions": ["1.0"], "requirements": ["pytest==8.3.2"]}},
        "instances": {},
    }
    (tmp_path / "pins.json").write_text(json.dumps(pins))
    resources = {"repos": SAMPLE / "repos", "environments": tmp_path / "pins.json"}
    staged = resolve_resources(
        stage(written(tmp_path, rows), "x"), None, resources, Home(tmp_path / "home")
    )
    assert [row.reason for row in staged.quarantined] == [
        "repository_missing",
        "environment_missing",
    ]
    (problem,) = staged.problems
    assert problem.repo is not None
    assert len(problem.repo.environment) == 32
    assert len(staged.problems) + len(staged.quarantined) == staged.n_input
    bare = resolve_resources(
        stage(written(tmp_path, rows[1:2]), "x"),
        None,
        {"repos": SAMPLE / "repos"},
        Home(tmp_path / "home"),
    )
    assert bare.dialogs[0].row_digest != staged.dialogs[0].row_digest, (
        "other packages are another dialogue"
    )


@pytest.mark.parametrize(
    ("pins", "said"),
    [
        (
            {"python": "3.4", "environments": {"one": {"requirements": ["pytest==8.3.2"]}}},
            "3.5 or newer",
        ),
        (
            {"python": "3.11", "environments": {"one": {"requirements": ["-r /etc/passwd"]}}},
            "NAME==VERSION",
        ),
        (
            {
                "python": "3.11",
                "environments": {"one": {"requirements": [], "pth": {"../x.pth": ""}}},
            },
            "plain name",
        ),
    ],
)
def test_pins_that_cannot_be_built_are_refused_in_a_sentence(
    tmp_path: Path, pins: dict[str, Any], said: str
):
    (tmp_path / "pins.json").write_text(json.dumps(pins))
    with pytest.raises(SourceUnreadable, match=said):
        read_environments(tmp_path / "pins.json")


def test_equal_commits_give_equal_trees_and_the_tests_are_laid_over_them(tmp_path: Path):
    first, second = (furnished_sample(Home(tmp_path / name)) for name in ("a", "b"))
    trees = [
        [problem.repo and problem.repo.tree for problem in one.problems] for one in (first, second)
    ]
    assert trees[0] == trees[1]
    repository = first.problems[0].repo
    assert repository is not None
    store = TreeStore(Home(tmp_path / "a").trees)
    assert set(store.changes(repository.tree, repository.tested_tree)) == {"tests/test_amounts.py"}
    assert resolve_resources(first, None, {}, Home(tmp_path / "a")) is first, (
        "what has its trees needs nothing"
    )


def test_the_benchmark_names_its_resources():
    assert [*BENCHMARK.resources.help] == ["repos", "environments", "images", "images_gb"]
