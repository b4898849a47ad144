"""The paper's discriminability, of its own figures and of a published warehouse."""

import csv
import json
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import duckdb
import pytest

from schemas.content_id import canonical_json
from schemas.run import AgentIdentity, EmbedderIdentity, ModelIdentity, RunSpec, Sampling
from tasks.benchmarks.conditions import CONDITION_COLUMNS
from tasks.benchmarks.unidial.exports import agents_table, discriminability, table
from tests.flows.parley_command import ask, parley
from warehouse.connect import Rows

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


def published(home: Path, *runs: tuple[RunSpec, float | None, float]) -> None:
    """A warehouse with these runs, the later ones the newer: each with the share of its tasks and
    its figure.
    """
    home.mkdir(parents=True)
    with duckdb.connect(home / "warehouse.duckdb") as tables:
        tables.execute(
            "create table runs (run_id text, benchmark text, model text, setting text, "
            "dataset_version text,"
            " finished_at text, task_share double, subsample_seed bigint, spec_json text)"
        )
        figures = (
            "run_id text, dataset text, dataset_version text, turn_stat text, dialog_stat text, "
            "dataset_level text, mean double"
        )
        tables.execute(
            f"create table unidial_agents ({figures}, base_model text, agent text, setting text)"
        )
        tables.execute(f"create table unidial_pooled ({figures}, model text, grouping text)")
        for number, (spec, share, mean) in enumerate(runs):
            run, setting = f"run {number}", f"unidial.{spec.setting}"
            tables.execute(
                "insert into runs values (?, 'unidial', ?, ?, '1', ?, ?, null, ?)",
                [
                    run,
                    spec.label,
                    setting,
                    f"2026-01-{number + 1:02}",
                    share,
                    canonical_json(spec.model_dump(mode="json")),
                ],
            )
            pooled = [run, spec.setting, "1", "mean", "min", "dialog", mean]
            agent = spec.agent.name if spec.agent else None
            tables.execute(
                "insert into unidial_agents values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [*pooled, spec.subject.label, agent, setting],
            )
            tables.execute(
                "insert into unidial_pooled values (?, ?, ?, ?, ?, ?, ?, ?, 'global')",
                [*pooled, spec.label],
            )


SPEC = RunSpec(
    benchmark="unidial",
    benchmark_version="1",
    setting="memorycode",
    dataset_version="1",
    dataset_digest="d",
    subject=ModelIdentity(provider="openai", name="m"),
)


def remembering(spec: RunSpec, **options: str) -> RunSpec:
    embedder = EmbedderIdentity(provider="openai", name="e")
    agent = AgentIdentity(name="hipporag", version="2", options=tuple(options.items()))
    return spec.model_copy(
        update={"agent": agent, "embedder": embedder, "embedder_in_play": embedder}
    )


N_CONDITION = len(CONDITION_COLUMNS) - 2
"""Columns of the condition at the end of a row, after share and digest in the middle."""


def told(found: Rows) -> list[tuple[Any, ...]]:
    """Rows without how they are pooled and without the columns of their conditions."""
    return sorted((row[6:7] + row[8:-N_CONDITION] for row in found[1]), key=str)


def test_an_agent_is_compared_with_the_model_alone_under_the_same_conditions(home: Path) -> None:
    """Neither a run of fewer tasks, nor one that was sampled or scored otherwise, takes the place
    of a whole run.
    """
    hot, by_ude = (
        SPEC.model_copy(update={"sampling": Sampling(temperature=1)}),
        SPEC.model_copy(update={"scoring_options": (("code_reading", "ude"),)}),
    )
    published(
        home,
        (SPEC, None, 0.25),
        (SPEC, None, 0.5),
        (remembering(SPEC), None, 0.75),
        (SPEC, 0.1, 0.125),
        (remembering(SPEC), 0.1, 1.0),
        (hot, None, 0.0),
        (remembering(by_ude), None, 0.0),
        (
            SPEC.model_copy(update={"subject": ModelIdentity(provider="control", name="gold")}),
            None,
            1.0,
        ),
    )
    found = agents_table(home, [])
    assert found[0][5:-N_CONDITION] == (
        "model",
        "task_share",
        "conditions",
        "alone",
        "hipporag",
        "hipporag - alone",
    )
    assert told(found) == sorted(
        [
            (1.0, 0.5, 0.75, 0.25),
            (0.1, 0.125, 1.0, 0.875),
            (1.0, 0.0, None, None),
            (1.0, None, 0.0, None),
        ],
        key=str,
    )
    assert told(agents_table(home, ["run 7"])) == [(1.0, 1.0)], "a control counts where it is named"


def test_an_agent_with_other_options_has_a_column_of_its_own(home: Path) -> None:
    published(
        home,
        (SPEC, None, 0.5),
        (remembering(SPEC), None, 0.75),
        (remembering(SPEC, size="big"), None, 1.0),
    )
    (columns, [row]) = agents_table(home, [])
    agents = slice(9, -N_CONDITION, 2)
    assert [name.partition(" ")[0] for name in columns[agents]] == ["hipporag", "hipporag"]
    assert sum("big" in name for name in columns[agents]) == 1
    assert sorted(row[agents]) == [0.75, 1.0]
    cells = dict(zip(columns, row, strict=True))
    assert json.loads(cells["scoring_options"]) == {"code_reading": "original"}
    assert json.loads(cells["sampling"])["temperature"] == 0


def test_a_models_whole_run_counts_before_a_newer_one_of_fewer_tasks(home: Path) -> None:
    other = SPEC.model_copy(update={"subject": ModelIdentity(provider="openai", name="other")})
    published(home, (SPEC, None, 0.5), (other, None, 1.0), (SPEC, 0.1, 0.0), (SPEC, 0.9, 0.1))
    [row] = table(home, [])[1]
    assert row[5:8] == (2, 0.75, pytest.approx(1 / 3))


def test_models_of_other_sampling_stand_in_other_rows(home: Path) -> None:
    other = SPEC.model_copy(update={"subject": ModelIdentity(provider="openai", name="other")})
    hot = {"sampling": Sampling(temperature=1)}
    published(
        home,
        (SPEC, None, 0.5),
        (other, 0.5, 1.0),
        (other.model_copy(update=hot), None, 0.0),
        (SPEC.model_copy(update=hot), None, 0.5),
    )
    columns, found = table(home, [])
    rows = [dict(zip(columns, row, strict=True)) for row in found]
    assert sorted((row["n_models"], row["mean"], row["task_share"]) for row in rows) == [
        (2, 0.25, 1.0),
        (2, 0.75, 0.5),
    ]
    assert {json.loads(row["sampling"])["temperature"] for row in rows} == {0, 1}
    assert len({row["conditions"] for row in rows}) == 2


@pytest.mark.long
@pytest.mark.slow
def test_published_runs_are_told_apart(standing_home: Path, tmp_path: Path) -> None:
    for model in ("control:gold", "control:empty"):
        done = parley(
            standing_home, "run", "unidial.locomo", "--dataset-version", "sample", "--model", model
        )
        assert done.code == 0, done.err
    runs = [
        row["run_id"]
        for row in ask(standing_home, "SELECT run_id FROM runs WHERE setting = 'unidial.locomo'")
    ]
    out = tmp_path / "table.csv"
    done = parley(
        standing_home,
        "export",
        "unidial-discriminability",
        *(f"--run={run}" for run in runs),
        "--out",
        str(out),
    )
    assert done.code == 0, done.err
    pooling = "dataset_level = 'turn' AND turn_stat = 'min' AND dialog_stat = 'max'"
    means = f"SELECT mean FROM unidial_pooled WHERE grouping = 'global' AND {pooling}"
    figures = [row["mean"] for row in ask(standing_home, means)]
    assert len(set(figures)) == 2
    with out.open(encoding="utf-8") as file:
        rows = {
            (row["turn_stat"], row["dialog_stat"], row["dataset_level"]): row
            for row in csv.DictReader(file)
        }
    assert len(rows) == 3 * 3 * 2
    row = rows["min", "max", "turn"]
    assert (row["dataset"], row["n_models"]) == ("locomo", "2")
    assert float(row["mean"]) == pytest.approx(fmean(figures))
    assert float(row["discriminability"]) == pytest.approx(pstdev(figures) / fmean(figures))
    refused = parley(standing_home, "export", "unidial-discriminability", "--out", str(out))
    assert refused.code != 0, "controls are no models"
