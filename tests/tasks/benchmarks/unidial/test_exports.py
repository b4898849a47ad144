"""The paper's discriminability, of its own figures and of a published warehouse."""

import csv
from pathlib import Path
from statistics import fmean, pstdev

import pytest

from tasks.benchmarks.unidial.exports import discriminability
from tests.flows.parley_command import ask, parley

TABLE_2 = {
    "LoCoMo": ((62.11, 59.25, 69.26, 66.04, 42.91), 0.15),
    "MathChat": ((77.43, 77.87, 67.65, 69.58, 61.41), 0.09),
    "MemoryCode": ((34.06, 25.99, 44.91, 34.13, 31.88), 0.18),
    "MT-Bench-101": ((93.62, 91.17, 85.47, 89.98, 90.77), 0.03),
    "PersonaMem": ((65.20, 64.52, 63.16, 42.78, 55.35), 0.15),
    "MultiIF": ((68.93, 64.23, 26.25, 31.76, 26.94), 0.43),
    "SafeDialBench": ((61.33, 53.95, 34.02, 46.85, 49.86), 0.18),
}
"""Figures of the five models, and the value beside them."""


@pytest.mark.parametrize("dataset", TABLE_2)
def test_it_is_the_papers(dataset: str) -> None:
    figures, value = TABLE_2[dataset]
    found = discriminability(figures)
    assert found is not None
    assert round(found, 2) == value


def test_one_model_and_a_mean_of_0_have_none() -> None:
    assert discriminability([0.5]) is None
    assert discriminability([0.0, 0.0]) is None


@pytest.mark.slow
def test_published_runs_are_told_apart(standing_home: Path, tmp_path: Path) -> None:
    for model in ("control:gold", "control:empty"):
        done = parley(standing_home, "run", "unidial.locomo", "--dataset-version", "sample", "--model", model)
        assert done.code == 0, done.err
    runs = [row["run_id"] for row in ask(standing_home, "SELECT run_id FROM runs WHERE setting = 'unidial.locomo'")]
    out = tmp_path / "table.csv"
    done = parley(standing_home, "export", "unidial-discriminability", *(f"--run={run}" for run in runs), "--out", str(out))
    assert done.code == 0, done.err
    pooling = "dataset_level = 'turn' AND turn_stat = 'min' AND dialog_stat = 'max'"
    means = f"SELECT mean FROM unidial_pooled WHERE \"by\" = 'global' AND {pooling}"
    figures = [row["mean"] for row in ask(standing_home, means)]
    assert len(set(figures)) == 2
    with out.open(encoding="utf-8") as file:
        rows = {(row["turn_stat"], row["dialog_stat"], row["dataset_level"]): row for row in csv.DictReader(file)}
    assert len(rows) == 3 * 3 * 2
    row = rows["min", "max", "turn"]
    assert (row["dataset"], row["n_models"]) == ("locomo", "2")
    assert float(row["mean"]) == pytest.approx(fmean(figures))
    assert float(row["discriminability"]) == pytest.approx(pstdev(figures) / fmean(figures))
    refused = parley(standing_home, "export", "unidial-discriminability", "--out", str(out))
    assert refused.code != 0, "controls are no models"
