"""The paper's Table 2 (judges beside people), Table 3 (the first message alone) and Figure 4 (asking and resolving)."""

from collections.abc import Iterable, Mapping, Sequence
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


def _read(home: Path, name: str, run_ids: Sequence[str] | None = None) -> list[Run]:
    """A query's rows; without ids, of one that has no parameter for them."""
    there = query(home, "select table_name from information_schema.tables where table_name = 'dialogue_swebench_agents'")[1]
    if not there:
        raise UsageError(f"no run of dialogue_swebench is published in {home}. `parley run dialogue_swebench.full` makes one")
    statement = read_sql(files("tasks.benchmarks.dialogue_swebench") / "queries" / f"{name}.sql").statement
    names, rows = query(home, statement, {} if run_ids is None else {"run_ids": list(run_ids)})
    return [dict(zip(names, row, strict=True)) for row in rows]


def judges(home: Path, run_ids: Sequence[str]) -> Rows:
    """How far each judge and people agree on each rubric: quadratically weighted kappa, and rank accuracy over pairs of systems.

    Compared is what a judge and people gave one and the same dialogue. Where several people rated it, their lower median counts.
    Systems are models with their agents, in one setting on one version of the data; the newest judged run of each counts.

    Raises:
        UsageError: no run is published.
    """
    judged, rated = _read(home, "judged", run_ids), _read(home, "rated")
    columns = (
        *("rubric", "judge", "kappa", "kappa_low", "kappa_high", "n_dialogues"),
        *("rank_accuracy", "n_pairs", "n_pairs_compared", "note"),
    )
    rows: list[tuple[object, ...]] = []
    for rubric in _RUBRICS:
        of_people = [row for row in rated if row["rubric"] == rubric]
        given = [row for row in judged if row["rubric"] == rubric]
        names = sorted({row["judge"] for row in given})
        rows += [_judge(rubric, name, [row for row in given if row["judge"] == name], of_people) for name in names or [None]]
    return columns, rows


def _judge(rubric: str, judge: str | None, given: Sequence[Run], rated: Sequence[Run]) -> tuple[object, ...]:
    """One row of the table.

    Args:
        given: of one judge, the newest run first.
        rated: of all people.
    """
    newest: dict[str, str] = {}
    for row in given:
        newest.setdefault(row["system"], row["run_id"])
    by_people: dict[str, list[float]] = {}
    for row in rated:
        by_people.setdefault(row["episode_id"], []).append(row["rating"])
    counted = [row for row in given if row["run_id"] == newest[row["system"]] and row["episode_id"] in by_people]
    people = {row["episode_id"]: float(median_low(by_people[row["episode_id"]])) for row in counted}
    agreement = weighted_kappa([(row["episode_id"], people[row["episode_id"]], row["rating"]) for row in counted])
    ranks = rank_accuracy(
        _by_system((row, people[row["episode_id"]]) for row in counted), _by_system((row, row["rating"]) for row in counted)
    )
    kappas = (agreement.value, agreement.low, agreement.high, len(counted))
    note = agreement.undefined_because or ""
    return (rubric, judge, *kappas, ranks.accuracy, ranks.n_pairs, ranks.n_compared, note)


def _by_system(rated: Iterable[tuple[Run, float]]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row, rating in rated:
        found.setdefault(row["system"], {})[row["task"]] = rating
    return found


def first_query_alone(home: Path, run_ids: Sequence[str]) -> Rows:
    """Resolved with the simulated user and with its first message alone, a row a model; the newest runs count.

    Raises:
        UsageError: no run is published.
    """
    newest: dict[tuple[str, str, str, str], Run] = {}
    for run in _read(home, "resolved", run_ids):
        newest.setdefault((run["model"], run["dataset_version"], run["sample"], _setting(run)), run)
    columns = ("model", "dataset_version", "sample", "full", "n_full", "first_query", "n_first_query", "difference")
    rows: list[tuple[object, ...]] = []
    for key in sorted({key[:3] for key in newest}):
        full, alone = newest.get((*key, FULL)), newest.get((*key, FIRST_QUERY))
        figures = [figure for run in (full, alone) for figure in _figures(run)]
        difference = figures[2] - figures[0] if None not in (figures[0], figures[2]) else None
        rows.append((*key, *figures, difference))
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
    columns = ("model", "setting", "dataset_version", "sample", "asks", "n_asks", "turns", "resolved", "n_resolved", "isolated")
    newest: dict[tuple[str, str, str, str], Run] = {}
    for run in _read(home, "resolved", run_ids):
        if run["n_asks"]:
            newest.setdefault((run["model"], run["setting"], run["dataset_version"], run["sample"]), run)
    return columns, [tuple(newest[key][name] for name in columns) for key in sorted(newest)]


EXPORTS: Mapping[str, Export] = {
    "judges": Export(help="weighted kappa and rank accuracy of the judge beside people's ratings (Table 2)", rows=judges),
    "first-query": Export(help="resolved with the user and with the first message alone (Table 3)", rows=first_query_alone),
    "asking": Export(help="information-seeking messages beside the share resolved (Figure 4)", rows=asking_and_resolving),
}
