"""A benchmark of some fifty lines, offered through the entry point, runs from staging to the
tables.
"""

import json
import os
from pathlib import Path

import pytest

from tests.crash.night import write_plugin
from tests.flows.drivers import ROOT
from tests.flows.parley_command import parley_process
from warehouse.connect import query

pytestmark = pytest.mark.slow
SMALLEST = ROOT / "tests" / "tasks" / "benchmarks" / "smallest.py"


def test_it_has_fewer_than_100_lines() -> None:
    assert SMALLEST.read_text(encoding="utf-8").count("\n") < 100


@pytest.mark.long
def test_gold_passes_and_empty_fails(served_home: Path, tmp_path: Path) -> None:
    write_plugin(tmp_path / "plugin", "smallest", "tests.tasks.benchmarks.smallest:BENCHMARK")
    environ = {"PYTHONPATH": os.pathsep.join((str(tmp_path / "plugin"), str(ROOT)))}
    night = {
        "workers": 1,
        "models": [{"spec": "control:gold"}, {"spec": "control:empty"}],
        "benchmarks": [{"name": "smallest.ask", "dataset_version": "sample"}],
    }
    (tmp_path / "night.json").write_text(json.dumps(night))
    done = parley_process(
        served_home, "nightly", "--config", tmp_path / "night.json", environ=environ
    )
    assert done.code == 0, done.err
    assert query(served_home, "SELECT model, mean, n, n_unscored FROM leaderboard ORDER BY model")[
        1
    ] == [
        ("control:empty", 0.0, 2, 0),
        ("control:gold", 1.0, 2, 0),
    ]
