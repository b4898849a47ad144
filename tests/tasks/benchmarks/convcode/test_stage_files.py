"""Where task files are looked for; Parquet files; the Hugging Face hub."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import SourceUnreadable
from tasks.benchmarks.convcode.stage import stage
from tasks.benchmarks.raw_rows import is_hub_dataset, version_key
from tests.tasks.benchmarks.convcode.raw_rows import (
    asserts_row,
    check_row,
    raw_row,
    write_parquet,
    write_rows,
)

README = "---\nconfigs:\n- config_name: default\n  data_files:\n"
SPLIT = "  - split: {0}\n    path: data/{0}-*\n"


@pytest.mark.parametrize(
    ("version", "place", "row"),
    [
        ("bigcodebench", "tasks.jsonl", raw_row()),
        ("bigcodebench", "data/tasks.jsonl", raw_row()),
        ("humaneval", "HumanEval.jsonl", check_row()),
        ("humaneval", "humaneval/HumanEval.jsonl", check_row()),
        ("mbpp", "mbpp.jsonl", asserts_row()),
        ("mbpp", "mbpp/mbpp_release_v1.jsonl", check_row(language="python")),
        ("mint", "mbpp/test_prompts.json", asserts_row()),
        ("mint", "mint/processed/humaneval/test_prompts.json", check_row()),
    ],
)
def test_a_folder_is_searched_where_upstream_keeps_its_files(
    version: str, place: str, row: Any, tmp_path: Path
) -> None:
    write_rows(tmp_path / place, row)
    staged = stage(tmp_path, version)
    assert [problem.source_file for problem in staged.problems] == [place]


def test_one_file_may_be_given_by_any_name(tmp_path: Path) -> None:
    assert (
        stage(write_rows(tmp_path / "mine.jsonl", check_row()), "humaneval").problems[0].source_file
        == "mine.jsonl"
    )


@pytest.mark.parametrize(
    ("make", "version", "told"),
    [
        (
            lambda d: d / "nowhere",
            "bigcodebench",
            "does not exist. Name the folder of BigCodeBench's files",
        ),
        (lambda d: d, "bigcodebench", r"\*\.parquet, \*\.jsonl\[\.gz\]\) in .*data"),
        (lambda d: d, "mint", r"has no MINT task file .*--dataset-version \(mint\)"),
        (
            lambda d: write_rows(d / "tasks.csv", b"a,b"),
            "bigcodebench",
            r"not a \.parquet, \.jsonl",
        ),
        (lambda d: write_rows(d / "tasks.jsonl", b""), "bigcodebench", "no readable row"),
        (
            lambda d: write_rows(d / "tasks.parquet", b"not Parquet"),
            "bigcodebench",
            "no readable row.*tasks.parquet",
        ),
    ],
)
def test_a_source_of_which_nothing_can_be_read_is_one_clear_error(
    make: Any, version: str, told: str, tmp_path: Path
) -> None:
    with pytest.raises(SourceUnreadable, match=told) as caught:
        stage(make(tmp_path), version)
    assert str(tmp_path) in str(caught.value)


def test_several_releases_of_the_same_tasks_are_refused_and_the_newest_is_named(
    tmp_path: Path,
) -> None:
    for release in ("v0.1.0_hf", "v0.1.9", "v0.1.10"):
        write_parquet(tmp_path / "data" / f"{release}-00000-of-00001.parquet", raw_row())
    with pytest.raises(
        SourceUnreadable, match=r"several releases.*--data .*v0\.1\.10-00000-of-00001\.parquet"
    ):
        stage(tmp_path, "bigcodebench")


def test_a_folder_of_logs_beside_the_tasks_is_read_too(tmp_path: Path) -> None:
    write_rows(tmp_path / "data" / "tasks.jsonl", raw_row())
    (tmp_path / "logs").mkdir()
    with pytest.raises(SourceUnreadable, match="logs"):
        stage(tmp_path, "bigcodebench")


def test_the_parts_of_one_release_are_one_dataset(tmp_path: Path) -> None:
    for part in (0, 1):
        rows = [raw_row(task_id=f"BigCodeBench/{2 * part + n}") for n in (0, 1)]
        write_parquet(tmp_path / f"v0.1.4-0000{part}-of-00002.parquet", *rows)
    staged = stage(tmp_path, "bigcodebench")
    assert [problem.problem_id for problem in staged.problems] == [
        f"BigCodeBench/{n}" for n in range(4)
    ]
    assert [problem.source_line for problem in staged.problems] == [1, 2, 1, 2]


def test_a_bad_row_of_a_table_is_quarantined_with_its_number(tmp_path: Path) -> None:
    rows = [raw_row(), raw_row(task_id="T/1", test=None) | {"test": None}, raw_row(task_id="T/2")]
    staged = stage(write_parquet(tmp_path / "tasks.parquet", *rows), "bigcodebench")
    (row,) = staged.quarantined
    assert (row.reason, row.source_file, row.source_line) == ("wrong_type", "tasks.parquet", 2)
    assert "T/1" in row.excerpt
    assert staged.n_input == 3


def test_a_cell_that_json_has_no_form_for_is_a_wrong_type(tmp_path: Path) -> None:
    staged = stage(
        write_parquet(tmp_path / "tasks.parquet", raw_row(test=b"import unittest")), "bigcodebench"
    )
    assert [(row.reason, row.detail.partition(":")[0]) for row in staged.quarantined] == [
        ("wrong_type", "test")
    ]


def test_other_columns_of_a_table_are_not_read(tmp_path: Path) -> None:
    staged = stage(
        write_parquet(tmp_path / "tasks.parquet", raw_row(score=float("nan"))), "bigcodebench"
    )
    assert len(staged.problems) == 1


def test_versions_are_ordered_as_numbers() -> None:
    assert sorted(["v0.1.10", "v0.1.0_hf", "v0.1.9"], key=version_key) == [
        "v0.1.0_hf",
        "v0.1.9",
        "v0.1.10",
    ]


@pytest.mark.parametrize(
    ("name", "version", "told"),
    [
        ("hf:bigcodebench", "bigcodebench", "write hf:OWNER/NAME"),
        ("hf:../etc/passwd", "bigcodebench", "write hf:OWNER/NAME"),
        ("hf:openai/openai_humaneval", "humaneval", "only version bigcodebench"),
    ],
)
def test_what_is_no_dataset_of_the_hub_is_refused(name: str, version: str, told: str) -> None:
    assert is_hub_dataset(name)
    with pytest.raises(SourceUnreadable, match=told):
        stage(Path(name), version)


@pytest.mark.skipif(
    importlib.util.find_spec("datasets") is not None, reason="the package `datasets` is installed"
)
def test_without_the_package_the_error_names_it_and_another_way() -> None:
    with pytest.raises(SourceUnreadable, match=r"pip install 'parley-eval\[hub\]'.*--data"):
        stage(Path("hf:bigcode/bigcodebench"), "bigcodebench")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset's repository, found by the real package where the hub's would be: under the working
    directory.
    """
    pytest.importorskip(
        "datasets", reason="the package `datasets` is not installed: pip install 'parley-eval[hub]'"
    )
    folder = tmp_path / "bigcode" / "bigcodebench"
    splits = ("v0.1.0_hf", "v0.1.2")
    for n, split in enumerate(splits):
        rows = [
            raw_row(task_id=f"BigCodeBench/{task}", instruct_prompt=split) for task in range(n + 1)
        ]
        write_parquet(folder / "data" / f"{split}-00000-of-00001.parquet", *rows)
    (folder / "README.md").write_text(
        README + "".join(map(SPLIT.format, splits)) + "---\n", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    return folder


def test_the_hub_s_newest_split_is_read_and_another_where_it_is_named(repository: Path) -> None:
    newest = stage(Path("hf:bigcode/bigcodebench"), "bigcodebench")
    assert [(p.problem_id, p.prompt) for p in newest.problems] == [
        ("BigCodeBench/0", "v0.1.2"),
        ("BigCodeBench/1", "v0.1.2"),
    ]
    assert {problem.source_file for problem in newest.problems} == {"bigcode/bigcodebench@v0.1.2"}
    older = stage(Path("hf:bigcode/bigcodebench@v0.1.0_hf"), "bigcodebench")
    assert [problem.prompt for problem in older.problems] == ["v0.1.0_hf"]
    with pytest.raises(
        SourceUnreadable, match=r"no split 'v9': name one of hf:bigcode/bigcodebench@v0\.1\.0_hf, "
    ):
        stage(Path("hf:bigcode/bigcodebench@v9"), "bigcodebench")
