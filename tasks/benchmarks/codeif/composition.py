"""Composition of staged data (Table 2): tasks, projects, dependencies, instructions by level."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from schemas.dialog import Dialog
from schemas.errors import UsageError
from schemas.problem import BASE_INSTRUCTION, Problem
from tasks.benchmarks.codeif.raw_row import DEPENDENCIES
from tasks.benchmarks.codeif.repository import CHARACTERS_PER_TOKEN, project_of
from warehouse.connect import Rows

if TYPE_CHECKING:
    from tasks.storage.parquet_store import Lake

_BENCHMARK = "codeif"
COLUMNS = (
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
                (version, level, *_row([task for task in tasks if level in (task[0].level, "all")]))
            )
    if not rows:
        raise UsageError(
            f"no data of {_BENCHMARK} is staged in {home}. Run `parley stage {_BENCHMARK} "
            "--data DIR`"
        )
    return COLUMNS, rows


def _staged_tasks(lake: "Lake") -> dict[str, list[_Task]]:
    """Return the tasks of each dataset version from its most recent staging."""
    latest: dict[Path, Path] = {}
    for part in sorted(
        lake.parts("problems", benchmark=_BENCHMARK), key=lambda part: part.stat().st_mtime_ns
    ):
        latest[part.parent] = part
    tasks_by_version: dict[str, list[_Task]] = {}
    for part in latest.values():
        problems = lake.read_part("problems", Problem, part)
        version = problems[0].dataset_version
        folder = lake.folder("dialogs", benchmark=_BENCHMARK, dataset_version=version)
        dialogs = {
            dialog.problem_id: dialog
            for dialog in lake.read_part("dialogs", Dialog, folder / part.name)
        }
        tasks_by_version[version] = [(problem, dialogs[problem.problem_id]) for problem in problems]
    return tasks_by_version


def _row(tasks: Sequence[_Task]) -> tuple[object, ...]:
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
