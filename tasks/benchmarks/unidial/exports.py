"""Tables in the paper's layout: how well each dataset tells models apart (Table 2), models with and without agents (Table 3).

Multi-IF's own table stands beside them.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from schemas.errors import UsageError
from tasks.benchmarks.conditions import (
    CONDITION_COLUMNS,
    condition_cells,
    condition_of,
    fits,
    rows_of,
    without,
)
from tasks.benchmarks.results import Export
from warehouse.connect import Rows, query
from warehouse.sql_files import read_sql

COLUMNS = (
    *("dataset", "dataset_version", "turn_stat", "dialog_stat", "dataset_level"),
    *("n_models", "mean", "discriminability"),
    *CONDITION_COLUMNS,
)


def discriminability(figures: Sequence[float]) -> float | None:
    """Standard deviation over mean of the models' figures on a dataset; 0 and up (paper section 4.1).

    The deviation is the population's: it gives all seven values of Table 2. None of fewer than two models, or for a mean of 0.
    """
    return pstdev(figures) / mean if len(figures) > 1 and (mean := fmean(figures)) else None


def table(home: Path, run_ids: Sequence[str]) -> Rows:
    """One row a dataset, its version, way of pooling and condition (options, sampling, judges, embedder).

    A model's newest run of all tasks counts, or where it has none, that of the largest share; `task_share` is the smallest of the
    row. Controls count if named.

    Raises:
        UsageError: no run of a model is published.
    """
    found = _asked(home, "figures", run_ids)
    rows: list[tuple[object, ...]] = []
    for pooled, of_pooling in groupby(found, key=lambda row: row[:5]):
        runs = [(row, without(condition_of(row[7], row[8], None), "tasks")) for row in of_pooling]
        for condition in rows_of(own for _, own in runs):
            best: dict[str, tuple[Any, ...]] = {}
            for row, own in runs:
                if fits(own, condition):
                    best.setdefault(row[5], row)
            figures = [row[6] for row in best.values()]
            share = {"tasks": json.dumps([min(row[8] for row in best.values()), None])}
            cells = condition_cells({**condition, **share})
            rows.append((*pooled, len(figures), fmean(figures), discriminability(figures), *cells))
    return COLUMNS, rows


def agents_table(home: Path, run_ids: Sequence[str]) -> Rows:
    """One row per dataset, its version, pooling, model and conditions: its figure alone, then each agent's with the difference.

    Runs of a row differ in their agent alone: tasks, sampling, judges and options are the same (`conditions` is a digest of them,
    `task_share` the share of the dataset's tasks). An agent with several options, versions or embedders has a column for each. A
    figure that no run has is empty. The newest run of its kind counts; controls count where run ids name them.

    Raises:
        UsageError: no run of a model is published.
    """
    found = _asked(home, "agents", run_ids)
    names = _agent_names({(row[8], row[9]) for row in found if row[8] is not None})
    rows: list[tuple[object, ...]] = []
    for pooled, of_model in groupby(found, key=lambda row: row[:8]):
        means = {row[8:10]: row[10] for row in of_model}
        alone = next((mean for (agent, _), mean in means.items() if agent is None), None)
        with_agents = (
            value
            for agent in names
            for mean in (means.get(agent),)
            for value in (mean, None if mean is None or alone is None else mean - alone)
        )
        rows.append((*pooled, alone, *with_agents))
    columns = (*COLUMNS[:5], "model", "task_share", "conditions", "alone")
    return (
        *columns,
        *(name for agent in names.values() for name in (agent, f"{agent} - alone")),
    ), rows


def multi_if_table(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Multi-IF's figures: one row per run, turn and language, and one over all languages.

    Columns are the shares of prompts all of whose instructions are followed, and of instructions, each read strictly and loosely.
    `overall` is the mean of the four. A prompt that lacks a value counts only where another instruction is broken. Of runs under
    equal conditions the newest counts; controls count where run ids name them.

    Raises:
        UsageError: no run of a model is published.
    """
    return _named(home, "multi_if", run_ids)


def _agent_names(agents: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
    """(agent, variant) -> its column: the agent's name, with its variant where it has several."""
    several = {name for name, n in Counter(name for name, _ in agents).items() if n > 1}
    return {
        (name, variant): f"{name} {variant}" if name in several else name
        for name, variant in sorted(agents)
    }


def _asked(home: Path, name: str, run_ids: Sequence[str]) -> list[tuple[Any, ...]]:
    return _named(home, name, run_ids)[1]


def _named(home: Path, name: str, run_ids: Sequence[str]) -> Rows:
    if not query(
        home, "select table_name from information_schema.tables where table_name = 'unidial_pooled'"
    )[1]:
        raise UsageError(
            f"no run of unidial is published in {home}. `parley run unidial.DATASET --model SPEC` makes one"
        )
    statement = read_sql(files("tasks.benchmarks.unidial") / "queries" / f"{name}.sql").statement
    return query(home, statement, {"run_ids": list(run_ids)})


EXPORTS = {
    "agents": Export(
        help="each model's figures alone and with each agent, with the differences (Table 3)",
        rows=agents_table,
    ),
    "discriminability": Export(
        help="how well each dataset tells models apart: standard deviation over mean of their figures (Table 2)",
        rows=table,
    ),
    "multi-if": Export(
        help="Multi-IF's accuracies by turn and language, strict and loose", rows=multi_if_table
    ),
}
