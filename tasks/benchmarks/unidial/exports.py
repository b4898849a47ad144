"""Tables in the paper's layout: how well each dataset tells models apart (Table 2), models with and without agents (Table 3)."""

from collections.abc import Sequence
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from schemas.errors import UsageError
from tasks.benchmarks.results import Export
from warehouse.connect import Rows, query
from warehouse.sql_files import read_sql

COLUMNS = (
    *("dataset", "dataset_version", "turn_stat", "dialog_stat", "dataset_level"),
    *("n_models", "mean", "discriminability"),
)


def discriminability(figures: Sequence[float]) -> float | None:
    """Standard deviation over mean of the models' figures on a dataset; 0 and up (paper section 4.1).

    The deviation is the population's: it gives all seven values of Table 2. None of fewer than two models, or for a mean of 0.
    """
    return pstdev(figures) / mean if len(figures) > 1 and (mean := fmean(figures)) else None


def table(home: Path, run_ids: Sequence[str]) -> Rows:
    """One row a dataset, its version and way of pooling. A model's newest run counts; controls count where run ids name them.

    Raises:
        UsageError: no run of a model is published.
    """
    found = _asked(home, "figures", run_ids)
    rows: list[tuple[object, ...]] = []
    for pooled, of_models in groupby(found, key=lambda row: row[:5]):
        figures = [row[6] for row in of_models]
        rows.append((*pooled, len(figures), fmean(figures), discriminability(figures)))
    return COLUMNS, rows


def agents_table(home: Path, run_ids: Sequence[str]) -> Rows:
    """One row per dataset, its version, way of pooling and model: its figure alone, then each agent's with the difference.

    A figure that no run has is empty. A model's newest run of its kind counts.

    Raises:
        UsageError: no run of a model is published.
    """
    found = _asked(home, "agents", run_ids)
    agents = sorted({row[6] for row in found if row[6] is not None})
    rows: list[tuple[object, ...]] = []
    for pooled, of_model in groupby(found, key=lambda row: row[:6]):
        means = {row[6]: row[7] for row in of_model}
        alone = means.get(None)
        with_agents = (
            value
            for agent in agents
            for mean in (means.get(agent),)
            for value in (mean, None if mean is None or alone is None else mean - alone)
        )
        rows.append((*pooled, alone, *with_agents))
    columns = (*COLUMNS[:5], "model", "alone", *(name for agent in agents for name in (agent, f"{agent} - alone")))
    return columns, rows


def _asked(home: Path, name: str, run_ids: Sequence[str]) -> list[tuple[Any, ...]]:
    if not query(home, "select table_name from information_schema.tables where table_name = 'unidial_pooled'")[1]:
        raise UsageError(f"no run of unidial is published in {home}. `parley run unidial.DATASET --model SPEC` makes one")
    statement = read_sql(files("tasks.benchmarks.unidial") / "queries" / f"{name}.sql").statement
    return query(home, statement, {"run_ids": list(run_ids)})[1]


EXPORTS = {
    "agents": Export(help="each model's figures alone and with each agent, with the differences (Table 3)", rows=agents_table),
    "discriminability": Export(
        help="how well each dataset tells models apart: standard deviation over mean of their figures (Table 2)", rows=table
    ),
}
