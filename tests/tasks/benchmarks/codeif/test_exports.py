"""Which run of several an export shows, and the composition of the data (Table 2)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from schemas.dialog import Role
from schemas.episode import Episode, Step
from schemas.errors import UsageError
from schemas.lake.records import RunRecord
from schemas.problem import BASE_INSTRUCTION
from schemas.run import ModelIdentity, RunSpec, Sampling
from tasks.benchmarks.codeif import BENCHMARK, SAMPLE_REPOSITORIES
from tasks.dialogue.reviewed_subject import FEEDBACK, INSTRUCTION, ROUND
from tasks.planning.dataset import write_staged
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tests.tasks.benchmarks.codeif.dialogues import raw_row, write_rows
from tests.warehouse.small_lake import ALPHA, SmallLake
from tests.warehouse.small_run import Run
from warehouse.connect import query
from warehouse.publication.publish import publish

CLEANED = (("answer_cleanup", "upstream_v0"),)
GREEDY = Sampling()
CUT = (("context_tokens", "1024"),)


@dataclass(frozen=True)
class OfOptions(Run):
    """A run of a setting with options, or of a part of the tasks."""

    setting: str = "static"
    options: tuple[tuple[str, str], ...] = ()
    scoring: tuple[tuple[str, str], ...] = ()
    sampling: Sampling = GREEDY
    task_share: float | None = None
    finished_at: str = "2026-01-02T00:10:00Z"

    @property
    def spec(self) -> RunSpec:
        update = {
            "setting": self.setting,
            "episode_options": self.options,
            "scoring_options": self.scoring,
            "sampling": self.sampling,
        }
        return super().spec.model_copy(update=update)

    def write(self, table: str, rows: Sequence[BaseModel], name: str = "1") -> Path:
        return super().write(table, [self._own(row) for row in rows], name)

    def _own(self, row: BaseModel) -> BaseModel:
        if isinstance(row, Episode):
            steps = (
                [self._labelled(step) for step in row.steps]
                if self.setting == "dynamic"
                else row.steps
            )
            return row.model_copy(update={"setting": self.setting, "steps": tuple(steps)})
        if isinstance(row, RunRecord):
            update = {
                "setting": f"codeif.{self.setting}",
                "finished_at": self.finished_at,
                "task_share": self.task_share,
            }
            return row.model_copy(update=update)
        return row

    def _labelled(self, step: Step) -> Step:
        """A user's odd rounds give an instruction, the even ones feedback on it."""
        kind = "instruction" if step.turn % 2 else FEEDBACK
        labels = ((INSTRUCTION, BASE_INSTRUCTION), (ROUND, kind))
        return step.model_copy(update={"labels": labels}) if step.role is Role.USER else step


def revised(revision: str) -> ModelIdentity:
    """The model at another revision, whose runs have other ids under the same condition."""
    return ALPHA.model_copy(update={"revision": revision})


def published(home: Path, setting: str) -> dict[str, OfOptions]:
    runs = {
        "plain": OfOptions(home, ALPHA, 1, setting=setting),
        "cut": OfOptions(home, ALPHA, 1, setting=setting, options=CUT),
        "cleaned": OfOptions(home, ALPHA, 1, setting=setting, scoring=CLEANED),
        "again": OfOptions(
            home, revised("1"), 1, setting=setting, finished_at="2026-01-03T00:00:00Z"
        ),
        "warm": OfOptions(
            home,
            ALPHA,
            1,
            setting=setting,
            sampling=Sampling(temperature=0.7),
            finished_at="2026-01-04T00:00:00Z",
        ),
        "a part": OfOptions(
            home,
            revised("2"),
            1,
            setting=setting,
            task_share=0.5,
            finished_at="2026-01-05T00:00:00Z",
        ),
    }
    lake = SmallLake(home)
    lake.write_dataset()
    lake.write_models()
    for run in runs.values():
        lake.write_simple(run)
    publish(home, marts=BENCHMARK.results.marts)
    return runs


def exported(home: Path, name: str, *run_ids: str) -> list[dict[str, Any]]:
    columns, rows = BENCHMARK.results.exports[name].rows(home, run_ids)
    return [dict(zip(columns, row, strict=True)) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "setting"), [("turns", "static"), ("strategies", "two_round")])
def test_the_newest_run_of_each_condition_counts(name: str, setting: str, tmp_path: Path) -> None:
    """Neither other options, nor another sampling, nor a part of the tasks replaces a run."""
    runs = published(tmp_path, setting)
    rows = exported(tmp_path, name)
    names = {run.run_id: of for of, run in runs.items()}
    assert {
        (
            names[row["run_id"]],
            row["options"],
            row["scoring_options"],
            row["task_share"],
            json.loads(row["sampling"])["temperature"],
        )
        for row in rows
    } == {
        ("again", "[]", "[]", None, 0),
        ("warm", "[]", "[]", None, 0.7),
        ("a part", "[]", "[]", 0.5, 0),
        ("cut", '[["context_tokens","1024"]]', "[]", None, 0),
        ("cleaned", "[]", '[["answer_cleanup","upstream_v0"]]', None, 0),
    }
    assert len({row["conditions"] for row in rows}) == 5
    part = exported(tmp_path, name, runs["a part"].run_id)
    assert {(row["run_id"], row["task_share"]) for row in part} == {(runs["a part"].run_id, 0.5)}


@pytest.mark.slow
def test_a_message_of_a_dynamic_dialogue_says_whether_it_is_an_instruction_or_feedback(
    tmp_path: Path,
) -> None:
    published(tmp_path, "dynamic")
    rows = query(tmp_path, "select distinct role, turn % 2, round from turns order by all")[1]
    assert rows == [
        ("assistant", 0, None),
        ("assistant", 1, None),
        ("user", 0, "feedback"),
        ("user", 1, "instruction"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "setting", "counts"),
    [
        (
            "turns",
            "static",
            {
                "n_ia",
                "n_ia_unscored",
                "n_ia_not_applicable",
                "n_ca_strict_not_applicable",
                "n_ifr_not_applicable",
            },
        ),
        ("rounds", "dynamic", {"n_ia_not_applicable", "n_ife_not_applicable"}),
        ("strategies", "two_round", {"n", "n_unscored", "n_not_applicable"}),
    ],
)
def test_values_that_do_not_exist_are_counted_beside_faults(
    name: str, setting: str, counts: set[str], tmp_path: Path
) -> None:
    published(tmp_path, setting)
    assert counts <= {row["measure"] for row in exported(tmp_path, name)}


@pytest.mark.slow
def test_an_export_counts_what_is_not_applicable_as_the_mart_does(tmp_path: Path) -> None:
    runs = published(tmp_path, "static")
    run_id = runs["again"].run_id
    columns = ", ".join(f"n{kind}_not_applicable" for kind in ("", "_ca", "_ca", "_ifr"))
    where = f"run_id = '{run_id}' and axis = 'turn' and turn = 1 and level = 'L1'"
    (counted,) = query(tmp_path, f"select {columns} from codeif_turns where {where}")[1]
    names = [f"n_{metric}_not_applicable" for metric in ("ia", "ca_strict", "ca_fraction", "ifr")]
    rows = [
        row
        for row in exported(tmp_path, "turns", run_id)
        if row["level"] == "L1" and row["measure"] in names
    ]
    assert [row["turn_1"] for row in rows] == list(counted)
    assert None not in counted


def staged(home: Path, data: Path, version: str) -> list[dict[str, Any]]:
    rows = BENCHMARK.data.stage(data, version)
    write_staged(rows, BENCHMARK.name, version, Lake(Home(home).lake))
    return exported(home, "composition")


def test_the_composition_of_our_repository_tasks_counted_by_hand(tmp_path: Path) -> None:
    bundled = Path(str(BENCHMARK.data.bundled[SAMPLE_REPOSITORIES]))
    rows = staged(tmp_path, bundled, SAMPLE_REPOSITORIES)
    columns = (
        "level",
        "n_tasks",
        "n_projects",
        "standalone_share",
        "n_instructions",
        "n_strategies",
        "tested_share",
    )
    assert [[row[name] for name in columns] for row in rows] == [
        ["L1", 1, 1, 1, 7, 7, 1],
        ["L2", 1, 1, 0, 9, 9, 1],
        ["L3", 1, 1, 0, 9, 9, 1],
        ["all", 3, 1, pytest.approx(1 / 3), 25, 9, 1],
    ]
    kinds = ("n_intra_class", "n_intra_file", "n_cross_file", "n_dependencies")
    assert [[row[kind] for kind in kinds] for row in (rows[0], rows[2])] == [
        [0, 0, 0, 0],
        [2, 0, 2, 4],
    ]


def test_lengths_are_in_tokens_of_four_characters_and_functions_have_no_project(
    tmp_path: Path,
) -> None:
    write_rows(tmp_path / "L_1_part_1.jsonl", raw_row(prompt="x" * 40))
    (row,) = staged(tmp_path / "home", tmp_path, "current")
    assert (row["n_tasks"], row["n_projects"], row["n_dependencies"], row["n_instructions"]) == (
        1,
        0,
        0,
        3,
    )
    assert row["base_tokens"] == 10
    assert row["instruction_tokens"] == pytest.approx(
        sum(map(len, ("Follow PEP 8.", "Add a third.", "Raise TypeError."))) / 12
    )


def test_without_staged_data_and_with_a_run_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="parley stage codeif"):
        exported(tmp_path, "composition")
    with pytest.raises(UsageError, match="--run"):
        exported(tmp_path, "composition", "abc")


@pytest.mark.slow
@pytest.mark.shared
def test_table_2_of_the_published_data(tmp_path: Path, shared_data: Path) -> None:
    """The paper's counts, but for L3's projects (11 there) and all instructions (964 there, which
    its rows exceed).
    """
    rows = {row["level"]: row for row in staged(tmp_path, shared_data / "codeif_bench", "current")}
    counts = (
        "n_tasks",
        "n_projects",
        "n_dependencies",
        "n_instructions",
        "n_strategies",
        "tested_share",
    )
    assert {level: [row[count] for count in counts] for level, row in rows.items()} == {
        "L1": [70, 14, 0, 487, 7, 1],
        "L2": [40, 26, 126, 360, 9, 1],
        "L3": [14, 12, 98, 126, 9, 1],
        "all": [124, 42, 224, 973, 9, 1],
    }
    assert rows["all"]["standalone_share"] == pytest.approx(0.565, abs=0.0005)
