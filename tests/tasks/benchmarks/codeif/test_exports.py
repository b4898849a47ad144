"""Which run of several an export shows, and the composition of the data (Table 2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from schemas.episode import Episode
from schemas.run import RunRecord, RunSpec
from tasks.benchmarks.codeif import BENCHMARK
from tests.warehouse.small_lake import ALPHA, SmallLake
from tests.warehouse.small_run import Run
from warehouse.publish import publish

CLEANED = (("answer_cleanup", "upstream_v0"),)
CUT = (("context_tokens", "1024"),)


@dataclass(frozen=True)
class OfOptions(Run):
    """A run of a setting with options, or of a part of the tasks."""

    setting: str = "static"
    options: tuple[tuple[str, str], ...] = ()
    scoring: tuple[tuple[str, str], ...] = ()
    seed: int = 0
    task_share: float | None = None
    finished_at: str = "2026-01-02T00:10:00Z"

    @property
    def spec(self) -> RunSpec:
        update = {"setting": self.setting, "episode_options": self.options, "scoring_options": self.scoring, "seed": self.seed}
        return super().spec.model_copy(update=update)

    def write(self, table: str, rows: Sequence[BaseModel], name: str = "1") -> Path:
        return super().write(table, [self._own(row) for row in rows], name)

    def _own(self, row: BaseModel) -> BaseModel:
        if isinstance(row, Episode):
            return row.model_copy(update={"setting": self.setting})
        if isinstance(row, RunRecord):
            update = {"setting": f"codeif.{self.setting}", "finished_at": self.finished_at, "task_share": self.task_share}
            return row.model_copy(update=update)
        return row


def published(home: Path, setting: str) -> dict[str, OfOptions]:
    runs = {
        "plain": OfOptions(home, ALPHA, 1, setting=setting),
        "cut": OfOptions(home, ALPHA, 1, setting=setting, options=CUT),
        "cleaned": OfOptions(home, ALPHA, 1, setting=setting, scoring=CLEANED),
        "again": OfOptions(home, ALPHA, 1, setting=setting, seed=1, finished_at="2026-01-03T00:00:00Z"),
        "a part": OfOptions(home, ALPHA, 1, setting=setting, seed=2, task_share=0.5, finished_at="2026-01-04T00:00:00Z"),
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


@pytest.mark.parametrize(("name", "setting"), [("turns", "static"), ("strategies", "two_round")])
def test_runs_of_other_options_stand_beside_each_other_and_a_part_replaces_no_whole(
    name: str, setting: str, tmp_path: Path
) -> None:
    runs = published(tmp_path, setting)
    rows = exported(tmp_path, name)
    names = {run.run_id: of for of, run in runs.items()}
    assert {(names[row["run_id"]], row["options"], row["scoring_options"], row["task_share"]) for row in rows} == {
        ("again", "[]", "[]", None),
        ("cut", '[["context_tokens","1024"]]', "[]", None),
        ("cleaned", "[]", '[["answer_cleanup","upstream_v0"]]', None),
    }
    part = exported(tmp_path, name, runs["a part"].run_id)
    assert {(row["run_id"], row["task_share"]) for row in part} == {(runs["a part"].run_id, 0.5)}
