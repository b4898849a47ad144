"""Tables and figures of the paper.

Table 1 (agents and their cost), Table 2 (judges compared with people), Table 3 (only the first
message) and Figure 4 (questions and resolved instances).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median_low
from typing import Any

from tasks.benchmarks.conditions import (
    CONDITION_COLUMNS,
    JUDGE,
    SCORING,
    Condition,
    by_row,
    condition_cells,
    condition_of,
    query_records,
    query_rows,
    without,
)
from tasks.benchmarks.dialogue_swebench.settings import FIRST_QUERY, FULL, JUDGED, SETTINGS
from tasks.benchmarks.results import Export
from tasks.metrics.rank_correlation import rank_accuracy
from warehouse.agreement import weighted_kappa
from warehouse.connect import Rows

NAME = "dialogue_swebench"
_RUBRICS = ("naturalness", "coherence")
Run = Mapping[str, Any]


_NOT_SHOWN = ("run_id", "spec_json", "task_share", "subsample_seed")
"""Columns of queries that identify a run or determine its condition."""


def _run_rows(
    home: Path,
    query: str,
    run_ids: Sequence[str],
    condition: Callable[[Run], Condition],
    needed: str = "run_id",
) -> Rows:
    """Return a row for each named run, or else for the newest run of each system and condition.

    The columns are those of the query. A run whose column `needed` is empty or 0 has no row.
    """
    names, values = query_rows(home, NAME, query, run_ids)
    columns = tuple(name for name in names if name not in _NOT_SHOWN)
    newest: dict[tuple[object, ...], tuple[object, ...]] = {}
    for run in (dict(zip(names, row, strict=True)) for row in values):
        if not run[needed]:
            continue
        cells = condition_cells(condition(run))
        key = (run["model"], run["setting"], run["dataset_version"], run["sample"], cells[-1])
        named = (run["run_id"],) if run_ids else ()
        newest.setdefault((*key, *named), (*(run[name] for name in columns), *cells))
    return (*columns, *CONDITION_COLUMNS), [newest[key] for key in sorted(newest, key=str)]


def agents(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return the share resolved, and mean turns, steps and cost of a dialogue, one row per run.

    A system is a model with its agent, in one setting on one version of the data. Without run ids,
    only the newest run of each system and condition counts. `usd` is the subject's cost by its
    tokens and prices, without simulator and judges (the paper's simulator has no price). It is NULL
    if a price or a token count is unknown.

    Raises:
        UsageError: No run is published.
    """
    return _run_rows(home, "agents", run_ids, _condition)


def judges(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return the agreement of each judge with people, one row per rubric, judge and condition.

    Figures are the quadratically weighted kappa and the rank accuracy over pairs of systems.

    A judge's rating is compared with people's rating of the same dialogue. If several people rated
    it, their lower median counts. A system is a model with its agent, in one setting on one version
    of the data. Only its newest judged run counts. Runs of a row share data, options, sampling,
    simulator and judge.

    Raises:
        UsageError: No run is published.
    """
    judged, rated = query_records(home, NAME, "judged", run_ids), query_records(home, NAME, "rated")
    columns = (
        *("rubric", "judge", "kappa", "kappa_low", "kappa_high", "n_dialogues"),
        *("rank_accuracy", "n_pairs", "n_pairs_compared", "note"),
    )
    rows: list[tuple[object, ...]] = []
    for rubric in _RUBRICS:
        of_people = [row for row in rated if row["rubric"] == rubric]
        judgements = [row for row in judged if row["rubric"] == rubric]
        names = sorted({row["judge"] for row in judgements})
        for name in names:
            of_judge = [row for row in judgements if row["judge"] == name]
            for condition, matching in by_row(of_judge, partial(_judged_condition, rubric)):
                rows.append(
                    (*_judge(rubric, name, matching, of_people), *condition_cells(condition))
                )
        if not names:
            rows.append((*_judge(rubric, None, (), of_people), *[None] * len(CONDITION_COLUMNS)))
    return (*columns, *CONDITION_COLUMNS), rows


def _judged_condition(rubric: str, row: Run) -> Condition:
    """Return the condition of a judgement.

    Of the run's judges, only the one of this rubric counts. The agent is part of the system.
    """
    condition = without(condition_of(row, SETTINGS), "agent", "embedder")
    return {
        name: part
        for name, part in condition.items()
        if not name.startswith(JUDGE) or name == f"{JUDGE}{rubric}"
    }


def _judge(
    rubric: str, judge: str | None, judgements: Sequence[Run], rated: Sequence[Run]
) -> tuple[object, ...]:
    """Return one row of the table.

    Args:
        rubric: Name of the rubric.
        judge: Label of the judge.
        judgements: Judgements of the judge, those of the newest run first.
        rated: Ratings of all people.
    """
    newest: dict[str, str] = {}
    for row in judgements:
        newest.setdefault(row["system"], row["run_id"])
    by_people: dict[str, list[float]] = {}
    for row in rated:
        by_people.setdefault(row["episode_id"], []).append(row["rating"])
    counted = [
        row
        for row in judgements
        if row["run_id"] == newest[row["system"]] and row["episode_id"] in by_people
    ]
    people = {row["episode_id"]: float(median_low(by_people[row["episode_id"]])) for row in counted}
    agreement = weighted_kappa(
        [(row["episode_id"], people[row["episode_id"]], row["rating"]) for row in counted]
    )
    ranks = rank_accuracy(
        _by_system((row, people[row["episode_id"]]) for row in counted),
        _by_system((row, row["rating"]) for row in counted),
    )
    kappas = (agreement.value, agreement.low, agreement.high, len(counted))
    note = agreement.undefined_because or ""
    return (rubric, judge, *kappas, ranks.accuracy, ranks.n_pairs, ranks.n_compared, note)


def _by_system(rated: Iterable[tuple[Run, float]]) -> dict[str, dict[str, float]]:
    ratings: dict[str, dict[str, float]] = {}
    for row, rating in rated:
        ratings.setdefault(row["system"], {})[row["task"]] = rating
    return ratings


def first_query_alone(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return the share resolved with the simulated user and with its first message only.

    One row per model and condition. Only the newest run of each condition counts.

    Raises:
        UsageError: No run is published.
    """
    runs = query_records(home, NAME, "resolved", run_ids)
    columns = (
        "model",
        "dataset_version",
        "sample",
        "full",
        "n_full",
        "first_query",
        "n_first_query",
        "difference",
    )
    rows: list[tuple[object, ...]] = []
    for key in sorted({_system(run) for run in runs}):
        system_runs = [run for run in runs if _system(run) == key]
        for condition, of_row in by_row(system_runs, _condition):
            newest = {_setting(run): run for run in reversed(of_row)}
            figures = [
                figure for name in (FULL, FIRST_QUERY) for figure in _figures(newest.get(name))
            ]
            difference = figures[2] - figures[0] if None not in (figures[0], figures[2]) else None
            rows.append((*key, *figures, difference, *condition_cells(condition)))
    return (*columns, *CONDITION_COLUMNS), rows


def _system(run: Run) -> tuple[str, str, str]:
    return run["model"], run["dataset_version"], run["sample"]


def _condition(run: Run) -> Condition:
    """Return the condition of a run without its judges, which do not affect its programs."""
    return without(condition_of(run, SETTINGS), JUDGE, SCORING)


def _setting(run: Run) -> str:
    return str(run["setting"]).rpartition(".")[2].removesuffix(JUDGED)


def _figures(run: Run | None) -> tuple[Any, Any]:
    return (None, None) if run is None else (run["resolved"], run["n_resolved"])


def asking_and_resolving(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return the mean number of information-seeking messages, and the share resolved.

    There is one row per judged run. Without run ids, only the newest run of each system (see
    `agents`) and condition counts.

    Raises:
        UsageError: No run is published.
    """
    return _run_rows(
        home, "resolved", run_ids, lambda run: condition_of(run, SETTINGS), needed="n_asks"
    )


EXPORTS: Mapping[str, Export] = {
    "agents": Export(
        help="resolved, turns, steps and USD of a dialogue, by model and agent (Table 1)",
        rows=agents,
    ),
    "judges": Export(
        help="weighted kappa and rank accuracy of judges against people's ratings (Table 2)",
        rows=judges,
    ),
    "first-query": Export(
        help="tasks resolved with the user and with only the first message (paper, Table 3)",
        rows=first_query_alone,
    ),
    "asking": Export(
        help="information-seeking messages and the share resolved (Figure 4)",
        rows=asking_and_resolving,
    ),
}
