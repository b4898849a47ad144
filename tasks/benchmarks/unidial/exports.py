"""Tables in the paper's layout: discriminability (Table 2), agents (Table 3) and Multi-IF."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from schemas.errors import UsageError
from tasks.benchmarks.results import (
    CONDITION_COLUMNS,
    Export,
    condition_cells,
    condition_of,
    fits,
    rows_of,
    without,
)
from warehouse.connect import Rows, query
from warehouse.sql_files import read_sql

COLUMNS = (
    *("dataset", "dataset_version", "turn_stat", "dialog_stat", "dataset_level"),
    *("n_models", "mean", "discriminability"),
    *CONDITION_COLUMNS,
)


def discriminability(figures: Sequence[float]) -> float | None:
    """Return the standard deviation divided by the mean of models' figures (paper section 4.1).

    The result is at least 0. The population's deviation is used, since it reproduces all seven
    values of Table 2. Return None for fewer than two models or a mean of 0.
    """
    return pstdev(figures) / mean if len(figures) > 1 and (mean := fmean(figures)) else None


def table(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return one row per dataset, version, pooling and condition.

    A pooling is one choice of `turn_stat`, `dialog_stat` and `dataset_level`, which combine scores
    of turns into one figure. A condition covers options, sampling, judges and embedder. A model's
    newest run of all tasks counts, or else its run with the largest share. `task_share` is the
    smallest share in the row. Controls count only if run ids name them.

    Raises:
        UsageError: No run of a model is published.
    """
    result_rows = _result_rows(home, "figures", run_ids)
    rows: list[tuple[object, ...]] = []
    for pooled, pooling_rows in groupby(result_rows, key=lambda row: row[:5]):
        runs = [(row, without(condition_of(row[7], row[8], None), "tasks")) for row in pooling_rows]
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
    """Return one row per dataset, version, pooling, model and condition, with and without agents.

    A row has the model's figure alone, then each agent's figure and its difference. Runs of a row
    differ only in their agent: `conditions` is a digest of tasks, sampling, judges and options, and
    `task_share` is the share of the dataset's tasks. An agent with several options, versions or
    embedders has several columns. A missing figure is empty. The newest run of each kind counts.
    Controls count only if run ids name them.

    Raises:
        UsageError: No run of a model is published.
    """
    result_rows = _result_rows(home, "agents", run_ids)
    names = _agent_names({(row[8], row[9]) for row in result_rows if row[8] is not None})
    rows: list[tuple[object, ...]] = []
    for pooled, model_rows in groupby(result_rows, key=lambda row: row[:8]):
        means = {row[8:10]: row[10] for row in model_rows}
        mean_alone = next((mean for (agent, _), mean in means.items() if agent is None), None)
        with_agents = (
            value
            for agent in names
            for mean in (means.get(agent),)
            for value in (mean, None if mean is None or mean_alone is None else mean - mean_alone)
        )
        rows.append((*pooled, mean_alone, *with_agents))
    columns = (*COLUMNS[:5], "model", "task_share", "conditions", "alone")
    return (
        *columns,
        *(name for agent in names.values() for name in (agent, f"{agent} - alone")),
    ), rows


def multi_if_table(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Multi-IF's figures: one row per run, turn and language, and one over all languages.

    The columns are the share of prompts with all instructions followed, and the share of followed
    instructions, each strict and loose. `overall` is the mean of the four. A prompt without a value
    counts only if another of its instructions is broken. The newest run counts among runs under
    equal conditions. Controls count only if run ids name them.

    Raises:
        UsageError: No run of a model is published.
    """
    return _query_result(home, "multi_if", run_ids)


def _agent_names(agents: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
    """Return the column of each (agent, variant), with the variant if the agent has several."""
    several = {name for name, n in Counter(name for name, _ in agents).items() if n > 1}
    return {
        (name, variant): f"{name} {variant}" if name in several else name
        for name, variant in sorted(agents)
    }


def _result_rows(home: Path, name: str, run_ids: Sequence[str]) -> list[tuple[Any, ...]]:
    return _query_result(home, name, run_ids)[1]


def _query_result(home: Path, name: str, run_ids: Sequence[str]) -> Rows:
    if not query(
        home, "select table_name from information_schema.tables where table_name = 'unidial_pooled'"
    )[1]:
        raise UsageError(
            f"no run of unidial is published in {home}. "
            "`parley run unidial.DATASET --model SPEC` creates one"
        )
    statement = read_sql(files("tasks.benchmarks.unidial") / "queries" / f"{name}.sql").statement
    return query(home, statement, {"run_ids": list(run_ids)})


EXPORTS = {
    "agents": Export(
        help="each model's figures alone and with each agent, with the differences (Table 3)",
        rows=agents_table,
    ),
    "discriminability": Export(
        help="discriminability of each dataset: standard deviation over mean (Table 2)",
        rows=table,
    ),
    "multi-if": Export(
        help="Multi-IF's accuracies by turn and language, strict and loose", rows=multi_if_table
    ),
}
