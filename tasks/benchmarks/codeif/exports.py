"""Exports of the paper's result tables: by turn, by pair of rounds, by strategy (section 5)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from schemas.errors import UsageError
from tasks.benchmarks.codeif.composition import composition
from tasks.benchmarks.codeif.settings import SETTINGS
from tasks.benchmarks.codeif.strategies import SLOTS_OF_REPOSITORIES
from tasks.benchmarks.conditions import (
    CONDITION_COLUMNS,
    chosen_runs,
    condition_cells,
)
from tasks.benchmarks.results import Export
from warehouse.connect import Rows, query
from warehouse.sql_files import read_sql

_CHOICES = ("dataset_version", "options", "scoring_options", "task_share", "isolated", "run_id")
_CONDITION = tuple(name for name in CONDITION_COLUMNS if name not in _CHOICES)
"""Columns of the run's condition that follow the table's own."""
_OF_RUN = ("level", "model", "setting", *_CHOICES)
MOST_TURNS, MOST_PAIRS = 10, 9
STATIC_METRICS = ("ia", "ca_strict", "ca_fraction", "ifr")
DYNAMIC_METRICS = ("ia", "ca_fraction", "ife", "ifr", "ca_strict")
_PREFIXES = {"ia": "n", "ifr": "n_ifr", "ife": "n_ife"}
_PREFIX_OF_CA = "n_ca"
_COUNTS = ("", "_unscored", "_not_applicable")
"""Suffixes of a metric's counts: values, unscored turns, and turns where it is not applicable."""
_STRATEGIES = tuple(sorted(SLOTS_OF_REPOSITORIES, key=SLOTS_OF_REPOSITORIES.__getitem__))


def turns(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return tables 4, 5 and 8, and Figure 3: static runs with a column for each turn.

    Each level, model and metric has a row with values and rows with its counts. `average` is the
    mean of the columns that have a value. Of several runs of one model and condition, the newest is
    used. `task_share` is empty for a run of all tasks. A model with an agent counts as another
    model. Controls are included only if run ids name them.

    Raises:
        UsageError: no run of this benchmark is published.
    """
    return _wide(
        home, run_ids, "codeif.static", "turn", STATIC_METRICS, MOST_TURNS, "turn_{}".format
    )


def rounds(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return tables 6 and 7, and Figure 4: dynamic runs with a column for each pair of rounds.

    Rows and the selection of runs are those of `turns`.

    Raises:
        UsageError: no run of this benchmark is published.
    """
    return _wide(
        home,
        run_ids,
        "codeif.dynamic",
        "round_pair",
        DYNAMIC_METRICS,
        MOST_PAIRS,
        lambda n: f"turn_{2 * n - 1}_{2 * n}",
    )


def strategies(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Figure 5: instruction accuracy of two-round runs with a column for each strategy.

    Each level and model has a row with values and rows with its counts.

    Raises:
        UsageError: no run of this benchmark is published.
    """
    records = _query(home, "strategies", run_ids)
    same = ("level", "model", *_CHOICES)
    rows: list[tuple[object, ...]] = []
    for of_run, group in groupby(
        sorted(records, key=lambda r: _key(r, same)), key=lambda r: tuple(r[name] for name in same)
    ):
        by_name = {record["instruction_id"]: record for record in group}
        for measure in ("ia", "n", "n_unscored", "n_not_applicable"):
            cells = (by_name.get(name, {}).get(measure) for name in _STRATEGIES)
            rows.append((*of_run, measure, *cells, *_condition_of(by_name)))
    return (*same, "measure", *_STRATEGIES, *_CONDITION), rows


def _wide(
    home: Path,
    run_ids: Sequence[str],
    setting: str,
    axis: str,
    metrics: Sequence[str],
    most: int,
    column: Callable[[int], str],
) -> Rows:
    records = _query(home, "turns", run_ids)
    setting_records = [
        record for record in records if (record["setting"], record["axis"]) == (setting, axis)
    ]
    rows: list[tuple[object, ...]] = []
    for of_run, group in groupby(
        sorted(setting_records, key=lambda r: _key(r, _OF_RUN)),
        key=lambda r: tuple(r[name] for name in _OF_RUN),
    ):
        by_place = {record["turn"]: record for record in group}
        for metric in metrics:
            rows += [
                (*of_run, name, *cells, *_condition_of(by_place))
                for name, *cells in _measures(by_place, metric, most)
            ]
    places = (column(n) for n in range(1, most + 1))
    return (*_OF_RUN, "measure", *places, "average", *_CONDITION), rows


def _condition_of(records: Mapping[Any, Mapping[str, Any]]) -> Iterator[object]:
    """Yield the cells of the condition that all records of a run have in common."""
    first = next(iter(records.values()))
    return (first[name] for name in _CONDITION)


def _measures(
    by_place: Mapping[int, Mapping[str, object]], metric: str, most: int
) -> list[tuple[object, ...]]:
    """Return the table's rows about one metric: its values, then each of its counts."""
    rows: list[tuple[object, ...]] = []
    fields = (metric, *(f"{_PREFIXES.get(metric, _PREFIX_OF_CA)}{suffix}" for suffix in _COUNTS))
    for name, field in zip(
        (metric, *(f"n_{metric}{suffix}" for suffix in _COUNTS)), fields, strict=True
    ):
        cells = [by_place.get(place, {}).get(field) for place in range(1, most + 1)]
        values = [cell for cell in cells if isinstance(cell, float)]
        rows.append((name, *cells, fmean(values) if name == metric and values else None))
    return rows


def _key(record: Mapping[str, object], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(record[name]) for name in names)


def _query(home: Path, name: str, run_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of a query with the columns of the run's condition."""
    if not query(
        home, "select table_name from information_schema.tables where table_name = 'codeif_turns'"
    )[1]:
        raise UsageError(
            f"no run of codeif is published in {home}. `parley run codeif.SETTING --model SPEC`"
            " publishes one"
        )
    runs = chosen_runs(home, "codeif", run_ids, SETTINGS)
    statement = read_sql(files("tasks.benchmarks.codeif") / "queries" / f"{name}.sql").statement
    names, rows = query(home, statement, {"run_ids": list(runs)})
    records = [dict(zip(names, row, strict=True)) for row in rows]
    conditions = {
        run_id: dict(zip(CONDITION_COLUMNS, condition_cells(condition), strict=True))
        for run_id, condition in runs.items()
    }
    return [conditions[record["run_id"]] | record for record in records]


EXPORTS: Mapping[str, Export] = {
    "turns": Export(
        help="instruction accuracy (IA), conversation accuracy (CA) and forgetting ratio (IFR) of"
        " static runs with n, by turn (Tables 4, 5 and 8, Figure 3)",
        rows=turns,
    ),
    "rounds": Export(
        help=(
            "IA, CA, IFR and instruction following efficiency (IFE) of dynamic runs with n, by "
            "pair of rounds (Tables 6 and 7, Figure 4)"
        ),
        rows=rounds,
    ),
    "composition": Export(
        help="numbers of tasks, projects and instructions in staged data, by level (Table 2)",
        rows=composition,
    ),
    "strategies": Export(
        help="IA of two-round runs with n, by strategy (Figure 5)", rows=strategies
    ),
}
