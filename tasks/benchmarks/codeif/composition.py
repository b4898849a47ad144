"""What staged data are made of (Table 2): tasks, projects, dependencies and instructions by level."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from schemas.dialog import Dialog
from schemas.errors import UsageError
from schemas.problem import BASE_INSTRUCTION, Problem
from tasks.benchmarks.codeif.repositories.contexts import CHARACTERS_PER_TOKEN
from tasks.benchmarks.codeif.repositories.raw_repository import DEPENDENCIES
from tasks.benchmarks.codeif.repositories.repository import project_of
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
    """Table 2: a row for each staged dataset version and level, and one for all levels of a version that has several.

    `standalone_share` is the share of tasks that need nothing of a repository (L1), `tested_share` that of instructions with
    tests. Lengths are means in tokens of four characters. A level without repository tasks has no projects; a count that the
    staged rows do not have is empty.

    Raises:
        UsageError: a run is named, or nothing is staged.
    """
    if run_ids:
        raise UsageError(
            "codeif-composition is of staged data, and runs have no part in it: leave --run out"
        )
    from tasks.storage.home import (
        Home,
    )  # not above: a command that only names benchmarks starts without it
    from tasks.storage.parquet_store import Lake

    lake = Lake(Home(home).lake)
    rows: list[tuple[object, ...]] = []
    for version, tasks in sorted(_staged(lake).items()):
        levels = sorted({problem.level for problem, _ in tasks})
        for level in (*levels, *(("all",) if len(levels) > 1 else ())):
            rows.append(
                (version, level, *_row([task for task in tasks if level in (task[0].level, "all")]))
            )
    if not rows:
        raise UsageError(
            f"no data of {_BENCHMARK} is staged in {home}: parley stage {_BENCHMARK} --data DIR"
        )
    return COLUMNS, rows


def _staged(lake: "Lake") -> dict[str, list[_Task]]:
    """The tasks of each dataset version, as they were staged last."""
    latest: dict[Path, Path] = {}
    for part in sorted(
        lake.parts("problems", benchmark=_BENCHMARK), key=lambda part: part.stat().st_mtime_ns
    ):
        latest[part.parent] = part
    found: dict[str, list[_Task]] = {}
    for part in latest.values():
        problems = lake.read_part("problems", Problem, part)
        version = problems[0].dataset_version
        folder = lake.folder("dialogs", benchmark=_BENCHMARK, dataset_version=version)
        dialogs = {
            dialog.problem_id: dialog
            for dialog in lake.read_part("dialogs", Dialog, folder / part.name)
        }
        found[version] = [(problem, dialogs[problem.problem_id]) for problem in problems]
    return found


def _row(tasks: Sequence[_Task]) -> tuple[object, ...]:
    others = [
        one
        for problem, _ in tasks
        for one in problem.instructions
        if one.instruction_id != BASE_INSTRUCTION
    ]
    projects = {project for _, dialog in tasks if (project := project_of(dialog)) is not None}
    dependencies = [_dependencies(tasks, kind) for kind in DEPENDENCIES]
    known = [n for n in dependencies if n is not None]
    return (
        len(tasks),
        len(projects),
        fmean(problem.level == "L1" for problem, _ in tasks),
        *dependencies,
        sum(known) if len(known) == len(dependencies) else None,
        len(others),
        len({one.instruction_id for one in others}),
        fmean(bool(one.suite.tests) for one in others) if others else None,
        fmean(_tokens(problem.prompt) for problem, _ in tasks),
        fmean(_tokens(one.text) for one in others) if others else None,
    )


def _dependencies(tasks: Sequence[_Task], kind: str) -> int | None:
    """How many of a kind the repository tasks name; None where rows were staged before these were kept."""
    named = [dict(dialog.labels).get(kind) for _, dialog in tasks if project_of(dialog) is not None]
    return None if None in named else sum(int(n) for n in named if n is not None)


def _tokens(text: str) -> float:
    return len(text) / CHARACTERS_PER_TOKEN
