"""A row of an export is one condition: cells of two simulators or samplings do not meet in it."""

import json
from pathlib import Path

import pytest

from schemas.run import Sampling
from tests.tasks.benchmarks.convcode.played import live, static
from tests.tasks.benchmarks.convcode.small_lake import GREEDY, SIMULATOR, ConvCodeLake, model
from tests.tasks.benchmarks.convcode.test_exports import (
    EXPERT,
    LATER,
    LIVE_MARKS,
    MODELS,
    OTHER,
    REPLAYED,
    SHOWN,
    TURNS,
    exported,
)

pytestmark = pytest.mark.slow

EXPERT_ALONE = "live[f_c,f_v*]"
WARM = Sampling(temperature=0.7)


@pytest.fixture(scope="module")
def conditions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model `a` with two experts, and one kind of feedback with the first only.

    Five models, live and static, at two temperatures.
    """
    lake = ConvCodeLake(tmp_path_factory.mktemp("conditions"))
    a, one, partial = model("a"), {"turns": "1"}, "live[f_c,f_e,f_v*]"
    lake.run(a, "live[f_c]", (live("-+"),), one)
    lake.run(a, EXPERT_ALONE, (live("-+"),), one, SIMULATOR)
    lake.run(a, EXPERT_ALONE, (live("--"),), one, OTHER, finished_at=LATER)
    lake.run(a, partial, (live("-+"),), one | SHOWN, SIMULATOR)
    lake.run(a, EXPERT_ALONE, (live("+"),), one, SIMULATOR, sampling=WARM)
    for name, mark in zip(MODELS, LIVE_MARKS, strict=True):
        for sampling, marks in ((GREEDY, mark), (WARM, "+")):
            lake.run(model(name), EXPERT, (live(marks),), TURNS, SIMULATOR, sampling=sampling)
            lake.run(model(name), REPLAYED, (static("+---", 3),), sampling=sampling)
    lake.publish()
    return lake.home


def test_cells_of_two_experts_or_samplings_do_not_meet_in_a_row(conditions: Path) -> None:
    """The newest run of each kind of feedback stood in one row, whoever spoke in it."""
    rows = [
        row
        for row in exported(conditions, "main-table")
        if (row["model"], row["metric"], row["turns"]) == ("openai:a", "mrr", 1)
    ]
    assert {
        (
            row["simulator"],
            json.loads(row["sampling"])["temperature"],
            row["f_c"],
            row["f_c,f_v*"],
            row["f_c,f_e,f_v*"],
        )
        for row in rows
    } == {
        ("openai:speaker", 0, 0.5, 0.5, 0.5),
        ("openai:other", 0, 0.5, 0, None),
        ("openai:speaker", 0.7, None, 1, None),
    }
    assert len({row["conditions"] for row in rows}) == len(rows)


@pytest.mark.parametrize("name", ["speakers", "leakage", "curves"])
def test_a_run_replaces_none_of_another_condition(conditions: Path, name: str) -> None:
    """Their newest run of a setting was the only one, whatever its sampling."""
    rows = [row for row in exported(conditions, name) if row["feedback"] == "f_c,f_v*"]
    assert {(row["simulator"], json.loads(row["sampling"])["temperature"]) for row in rows} == {
        ("openai:speaker", 0),
        ("openai:other", 0),
        ("openai:speaker", 0.7),
    }


def test_static_runs_are_compared_with_live_ones_of_the_same_sampling(conditions: Path) -> None:
    rows = [row for row in exported(conditions, "correlation") if row["static_metric"] == "mrr"]
    found = {
        json.loads(row["sampling"])["temperature"]: (row["n_models"], row["spearman"])
        for row in rows
        if row["reference_model"]
    }
    assert found == {0: (5, None), 0.7: (5, None)}
    mrr = [row for row in exported(conditions, "static-table") if row["metric"] == "mrr"]
    assert len(mrr) == 2 * len(MODELS)
