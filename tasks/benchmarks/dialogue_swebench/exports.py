"""The paper's Table 2 (judges beside people), Table 3 (the first message alone) and Figure 4 (asking and resolving)."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import median_low
from typing import Any

from schemas.errors import UsageError
from tasks.benchmarks.dialogue_swebench.settings import FIRST_QUERY, FULL, JUDGED
from tasks.benchmarks.results import Export
from tasks.metrics.judge_ranking import rank_accuracy
from warehouse.connect import Rows, query
from warehouse.kappa import weighted_kappa
from warehouse.sql_files import read_sql

_RUBRICS = ("naturalness", "coherence")
Run = Mapping[str, Any]


def _read(home: Path, name: str, run_ids: Sequence[str]) -> list[Run]:
    there = query(home, "select table_name from information_schema.tables where table_name = 'dialogue_swebench_agents'")[1]
    if not there:
        raise UsageError(f"no run of dialogue_swebench is published in {home}. `parley run dialogue_swebench.full` makes one")
    statement = read_sql(files("tasks.benchmarks.dialogue_swebench") / "queries" / f"{name}.sql").statement
    names, rows = query(home, statement, {"run_ids": list(run_ids)})
    return [dict(zip(names, row, strict=True)) for row in rows]


def judges(home: Path, run_ids: Sequence[str]) -> Rows:
    """How far judge and people agree on each rubric: quadratically weighted kappa, and rank accuracy over pairs of systems.

    Where several people rated a dialogue, their lower median counts. Systems are models with their agents, in one setting.

    Raises:
        UsageError: no run is published.
    """
    rated = _read(home, "rated", run_ids)
    return (
        ("rubric", "kappa", "kappa_low", "kappa_high", "n_dialogues", "rank_accuracy", "n_pairs", "n_pairs_compared", "note"),
        [_judge(rubric, [row for row in rated if row["rubric"] == rubric]) for rubric in _RUBRICS],
    )


def _judge(rubric: str, rated: Sequence[Run]) -> tuple[object, ...]:
    judged = {(row["system"], row["task"]): (row["episode_id"], row["value"]) for row in rated if not row["rater"]}
    given: dict[tuple[str, str], list[float]] = {}
    for row in rated:
        if row["rater"]:
            given.setdefault((row["system"], row["task"]), []).append(row["value"])
    people = {key: median_low(values) for key, values in given.items()}
    both = sorted(judged.keys() & people.keys())
    agreement = weighted_kappa([(judged[key][0], people[key], judged[key][1]) for key in both])
    ranks = rank_accuracy(_by_system(people), _by_system({key: value for key, (_, value) in judged.items()}))
    note = agreement.undefined_because or ""
    kappas = (agreement.value, agreement.low, agreement.high)
    return (rubric, *kappas, len(both), ranks.accuracy, ranks.n_pairs, ranks.n_compared, note)


def _by_system(values: Mapping[tuple[str, str], float]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for (system, task), value in values.items():
        found.setdefault(system, {})[task] = value
    return found


def first_query_alone(home: Path, run_ids: Sequence[str]) -> Rows:
    """Resolved with the simulated user and with its first message alone, a row a model; the newest runs count.

    Raises:
        UsageError: no run is published.
    """
    newest: dict[tuple[str, str, str], Run] = {}
    for run in _read(home, "resolved", run_ids):
        newest.setdefault((run["model"], run["dataset_version"], _setting(run)), run)
    columns = ("model", "dataset_version", "full", "n_full", "first_query", "n_first_query", "difference")
    rows: list[tuple[object, ...]] = []
    for model, version in sorted({key[:2] for key in newest}):
        full, alone = newest.get((model, version, FULL)), newest.get((model, version, FIRST_QUERY))
        figures = [figure for run in (full, alone) for figure in _figures(run)]
        difference = figures[2] - figures[0] if None not in (figures[0], figures[2]) else None
        rows.append((model, version, *figures, difference))
    return columns, rows


def _setting(run: Run) -> str:
    return str(run["setting"]).rpartition(".")[2].removesuffix(JUDGED)


def _figures(run: Run | None) -> tuple[Any, Any]:
    return (None, None) if run is None else (run["resolved"], run["n_resolved"])


def asking_and_resolving(home: Path, run_ids: Sequence[str]) -> Rows:
    """Mean number of messages that seek information, and the share resolved: a row a judged run, the newest of each system.

    Raises:
        UsageError: no run is published.
    """
    columns = ("model", "setting", "dataset_version", "asks", "n_asks", "turns", "resolved", "n_resolved", "isolated")
    newest: dict[tuple[str, str, str], Run] = {}
    for run in _read(home, "resolved", run_ids):
        if run["n_asks"]:
            newest.setdefault((run["model"], run["setting"], run["dataset_version"]), run)
    return columns, [tuple(newest[key][name] for name in columns) for key in sorted(newest)]


EXPORTS: Mapping[str, Export] = {
    "judges": Export(help="weighted kappa and rank accuracy of the judge beside people's ratings (Table 2)", rows=judges),
    "first-query": Export(help="resolved with the user and with the first message alone (Table 3)", rows=first_query_alone),
    "asking": Export(help="information-seeking messages beside the share resolved (Figure 4)", rows=asking_and_resolving),
}
