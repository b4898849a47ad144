"""Tables in the paper's layout: discriminability (Table 2), agents (Table 3) and Multi-IF."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from tasks.benchmarks.conditions import (
    CONDITION_COLUMNS,
    Condition,
    by_row,
    condition_cells,
    condition_of,
    query_rows,
    table_of_runs,
    without,
)
from tasks.benchmarks.results import Export
from tasks.benchmarks.unidial.convert import NAME
from tasks.benchmarks.unidial.settings import SETTINGS
from warehouse.connect import Rows

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
    _, result_rows = query_rows(home, NAME, "figures", run_ids)
    rows: list[tuple[object, ...]] = []
    for pooled, pooling_rows in groupby(result_rows, key=lambda row: row[:5]):
        for condition, of_row in by_row(pooling_rows, _pooled_condition):
            best = {row[5]: row for row in reversed(of_row)}
            figures = [row[6] for row in best.values()]
            share = {"tasks": json.dumps([min(row[8] for row in best.values()), None])}
            cells = condition_cells({**condition, **share})
            rows.append((*pooled, len(figures), fmean(figures), discriminability(figures), *cells))
    return COLUMNS, rows


def _pooled_condition(row: Sequence[Any]) -> Condition:
    return without(_condition((*row[7:9], None)), "tasks", "agent", "embedder_in_play")


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
    _, result_rows = query_rows(home, NAME, "agents", run_ids)
    names = _agent_names({row[6:8] for row in result_rows if row[6] is not None})
    conditions: dict[tuple[object, ...], Condition] = {}
    means: dict[tuple[object, ...], dict[object, float]] = {}
    for row in result_rows:
        condition = without(_condition(row[9:]), "agent", "embedder")
        group = (*row[:6], *sorted(condition.items()))
        conditions[group] = condition
        means.setdefault(group, {}).setdefault(row[6:8] if row[6] is not None else None, row[8])
    rows: list[tuple[object, ...]] = []
    for group, condition in conditions.items():
        alone = means[group].get(None)
        with_agents = (
            value
            for agent in names
            for mean in (means[group].get(agent),)
            for value in (mean, None if mean is None or alone is None else mean - alone)
        )
        cells = dict(zip(CONDITION_COLUMNS, condition_cells(condition), strict=True))
        share, digest = cells.pop("task_share"), cells.pop("conditions")
        rows.append((*group[:6], share, digest, alone, *with_agents, *cells.values()))
    columns = (
        *(*COLUMNS[:5], "model", "task_share", "conditions", "alone"),
        *(name for agent in names.values() for name in (agent, f"{agent} - alone")),
        *(name for name in CONDITION_COLUMNS if name not in ("task_share", "conditions")),
    )
    return columns, rows


def multi_if_table(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Multi-IF's figures: one row per run, turn and language, and one over all languages.

    The columns are the share of prompts with all instructions followed, and the share of followed
    instructions, each strict and loose. `overall` is the mean of the four. A prompt without a value
    counts only if another of its instructions is broken. The newest run counts among runs under
    equal conditions. Controls count only if run ids name them.

    Raises:
        UsageError: No run of a model is published.
    """
    return table_of_runs(home, NAME, "multi_if", run_ids, SETTINGS)


def _condition(run: Sequence[Any]) -> Condition:
    """Return the condition of a run with these spec, share of tasks and seed of the subsample."""
    return condition_of(
        dict(zip(("spec_json", "task_share", "subsample_seed"), run, strict=True)), SETTINGS
    )


def _agent_names(agents: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
    """Return the column of each (agent, variant), with the variant if the agent has several."""
    several = {name for name, n in Counter(name for name, _ in agents).items() if n > 1}
    return {
        (name, variant): f"{name} {variant}" if name in several else name
        for name, variant in sorted(agents)
    }


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
