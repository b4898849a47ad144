"""Exports of the paper's tables: results (section 5), and composition of staged data (Table 2)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from schemas.dialog import Dialog
from schemas.errors import UsageError
from schemas.problem import BASE_INSTRUCTION, Problem
from tasks.benchmarks.codeif.raw_row import DEPENDENCIES
from tasks.benchmarks.codeif.settings import SETTINGS, SLOTS_OF_REPOSITORIES
from tasks.benchmarks.codeif.stage import CHARACTERS_PER_TOKEN, project_of
from tasks.benchmarks.conditions import CONDITION_COLUMNS, records_of_runs
from tasks.benchmarks.results import Export
from warehouse.connect import Rows

if TYPE_CHECKING:
    from tasks.storage.parquet_store import Lake

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
    records = records_of_runs(home, "codeif", "strategies", run_ids, SETTINGS)
    same = ("level", "model", *_CHOICES)
    rows: list[tuple[object, ...]] = []
    for of_run, group in _groups(records, same):
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
    records = records_of_runs(home, "codeif", "turns", run_ids, SETTINGS)
    setting_records = [
        record for record in records if (record["setting"], record["axis"]) == (setting, axis)
    ]
    rows: list[tuple[object, ...]] = []
    for of_run, group in _groups(setting_records, _OF_RUN):
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


def _groups(
    records: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> Iterator[tuple[tuple[Any, ...], Iterator[Mapping[str, Any]]]]:
    """Yield the records with equal values of these columns, by the values, sorted as texts."""
    ordered = sorted(records, key=lambda record: tuple(str(record[name]) for name in names))
    return groupby(ordered, key=lambda record: tuple(record[name] for name in names))


COMPOSITION_COLUMNS = (
    *("dataset_version", "level", "n_tasks", "n_projects", "standalone_share"),
    *(f"n_{kind}" for kind in DEPENDENCIES),
    *(
        "n_dependencies",
        "n_instructions",
        "n_strategies",
        "tested_share",
        "base_tokens",
        "instruction_tokens",
    ),
)
_Task = tuple[Problem, Dialog]


def composition(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Table 2: one row for each staged dataset version and level.

    A version with several levels also has a row for all levels. `standalone_share` is the share of
    tasks that need nothing of a repository (L1). `tested_share` is the share of instructions with
    tests. Lengths are means in tokens of four characters. A level without repository tasks has no
    projects. A count is empty if rows were staged before Parley stored it.

    Raises:
        UsageError: `run_ids` is not empty, or no data is staged.
    """
    if run_ids:
        raise UsageError(
            "codeif-composition describes staged data, so `--run` has no effect. Remove it"
        )
    # Imported here, because commands that only list benchmarks do not need it.
    from tasks.storage.home import Home
    from tasks.storage.parquet_store import Lake

    lake = Lake(Home(home).lake)
    rows: list[tuple[object, ...]] = []
    for version, tasks in sorted(_staged_tasks(lake).items()):
        levels = sorted({problem.level for problem, _ in tasks})
        for level in (*levels, *(("all",) if len(levels) > 1 else ())):
            rows.append(
                (
                    version,
                    level,
                    *_composition([task for task in tasks if level in (task[0].level, "all")]),
                )
            )
    if not rows:
        raise UsageError(
            f"no data of codeif is staged in {home}. Run `parley stage codeif --data DIR`"
        )
    return COMPOSITION_COLUMNS, rows


def _staged_tasks(lake: "Lake") -> dict[str, list[_Task]]:
    """Return the tasks of each dataset version from its most recent staging."""
    latest: dict[Path, Path] = {}
    for part in sorted(
        lake.parts("problems", benchmark="codeif"), key=lambda part: part.stat().st_mtime_ns
    ):
        latest[part.parent] = part
    tasks_by_version: dict[str, list[_Task]] = {}
    for part in latest.values():
        problems = lake.read_part("problems", Problem, part)
        version = problems[0].dataset_version
        folder = lake.folder("dialogs", benchmark="codeif", dataset_version=version)
        dialogs = {
            dialog.problem_id: dialog
            for dialog in lake.read_part("dialogs", Dialog, folder / part.name)
        }
        tasks_by_version[version] = [(problem, dialogs[problem.problem_id]) for problem in problems]
    return tasks_by_version


def _composition(tasks: Sequence[_Task]) -> tuple[object, ...]:
    added = [
        instruction
        for problem, _ in tasks
        for instruction in problem.instructions
        if instruction.instruction_id != BASE_INSTRUCTION
    ]
    projects = {project for _, dialog in tasks if (project := project_of(dialog)) is not None}
    dependencies = [_n_dependencies(tasks, kind) for kind in DEPENDENCIES]
    counts = [n for n in dependencies if n is not None]
    return (
        len(tasks),
        len(projects),
        fmean(problem.level == "L1" for problem, _ in tasks),
        *dependencies,
        sum(counts) if len(counts) == len(dependencies) else None,
        len(added),
        len({instruction.instruction_id for instruction in added}),
        fmean(bool(instruction.suite.tests) for instruction in added) if added else None,
        fmean(_tokens(problem.prompt) for problem, _ in tasks),
        fmean(_tokens(instruction.text) for instruction in added) if added else None,
    )


def _n_dependencies(tasks: Sequence[_Task], kind: str) -> int | None:
    """Return the number of dependencies of one kind over all repository tasks.

    Returns None if a row was staged before Parley stored these numbers.
    """
    values = [
        dict(dialog.labels).get(kind) for _, dialog in tasks if project_of(dialog) is not None
    ]
    return None if None in values else sum(int(n) for n in values if n is not None)


def _tokens(text: str) -> float:
    return len(text) / CHARACTERS_PER_TOKEN


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
