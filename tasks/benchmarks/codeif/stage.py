"""Staging of CodeIF-Bench: dialogs and problems of function (L1 part 1) and repository tasks."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from schemas.dialog import Dialog
from schemas.errors import SourceUnreadable
from schemas.problem import Problem, TestSuite
from tasks.benchmarks.codeif.construction.comments import CONSTRUCTION, read_comments
from tasks.benchmarks.codeif.raw_row import instructions_of, parse_repository_row, parse_row
from tasks.benchmarks.codeif.recording import LEVEL_1, published_turns
from tasks.benchmarks.codeif.repository import (
    CONSTRUCTION_REPOSITORIES,
    RAW_ROW,
    repository_dialog,
    repository_problem,
)
from tasks.benchmarks.codeif.strategies import (
    STRATEGIES,
    imported_packages,
    problem_id,
    strategy_turns,
)
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.raw_rows import SUFFIXES, matching, single_file
from tasks.benchmarks.staging import RawRow, Staging, dialog_of

BENCHMARK_NAME = "codeif"
LEVEL = "L1"
_REPLACED = ("prompt", "code", "context", "requirements", "multi-turn")
"""Fields of a repository task's row that a build replaces or drops."""
TASK_FILES = "L_1_part_1*.jsonl"
REPOSITORY_FILES = ("L_1_part_2*.jsonl", "L_2*.jsonl", "L_3*.jsonl")
"""Files of repository tasks.

The first release (v0) is staged without them, since its rows have no order of turns.
"""


def stage(source: Path, dataset_version: str) -> Staged:
    """Stage a task file, or the task files of a folder.

    Raises:
        SourceUnreadable: there is no task file, or no file has a readable line.
    """
    files = task_files(source, dataset_version)
    turns = published_turns(source) if dataset_version == LEVEL_1 else {}
    staging = Staging(BENCHMARK_NAME, dataset_version)
    staging.add_source(source, lambda _: files, partial(_make, turns=turns))
    staged = staging.staged()
    return (
        _with_comments(staged, source, dataset_version)
        if dataset_version == CONSTRUCTION
        else staged
    )


def _with_comments(staged: Staged, source: Path, version: str) -> Staged:
    """Return the rows with the review comments as a context.

    Each dialog names the context, so that the comments are part of ids. No dialog shows it.
    """
    contexts, bad_rows, n_bad_rows = read_comments(source, BENCHMARK_NAME, version)
    update = {"context_id": contexts[0].context_id} if contexts else {}
    return Staged(
        dialogs=(dialog.model_copy(update=update) for dialog in staged.dialogs),
        problems=staged.problems,
        quarantined=(*staged.quarantined, *bad_rows),
        n_input=staged.n_input + n_bad_rows,
        contexts=contexts,
    )


def _make(row: RawRow, turns: Mapping[str, tuple[str, ...]]) -> tuple[Problem, tuple[Dialog]]:
    """Stage a row; the turns of published runs, if given, replace the row's own."""
    if "namespace" in row.fields:
        return _make_repository(row, turns)
    task = parse_row(row.fields)
    base = TestSuite(tests=tuple(task.test))
    others = instructions_of(task.requirements, STRATEGIES)
    suites = (base, *(instruction.suite for instruction in others))
    problem = row.problem(
        problem_id(task.task_id),
        task.prompt,
        base,
        task.code,
        row.digest(row.fields),
        level=LEVEL,
        others=others,
        packages=imported_packages(test for suite in suites for test in suite.tests),
    )
    order = task.turn_order(row.version)
    return problem, (dialog_of(problem, strategy_turns(problem, order), (("level", LEVEL),)),)


def _make_repository(
    row: RawRow, turns: Mapping[str, tuple[str, ...]]
) -> tuple[Problem, tuple[Dialog]]:
    raw, name = row.fields, row.fields["namespace"]
    if isinstance(name, str) and turns.get(name):
        raw["multi-turn"] = list(turns[name])
    task = parse_repository_row(raw)
    problem = repository_problem(row, task, row.digest(raw))
    dialog = repository_dialog(task, problem)
    if row.version == CONSTRUCTION_REPOSITORIES:
        raw_json = json.dumps(
            {name: value for name, value in raw.items() if name not in _REPLACED},
            ensure_ascii=False,
        )
        dialog = dialog.model_copy(update={"labels": (*dialog.labels, (RAW_ROW, raw_json))})
    return problem, (dialog,)


def task_files(source: Path, dataset_version: str) -> tuple[Path, ...]:
    """Return the files to stage: those of function tasks, then those of repository tasks.

    Raises:
        SourceUnreadable: the path does not exist, or contains no task file in the searched folders.
    """
    if file := single_file(source, SUFFIXES, "CodeIF-Bench"):
        return file
    repository_folders = (source, source / "repo")
    if dataset_version == LEVEL_1:
        if files := _first_files(repository_folders, REPOSITORY_FILES[:1]):
            return files
        raise SourceUnreadable(
            f"{source} contains no {REPOSITORY_FILES[0]}[.gz]. Pass CodeIF-Bench's folder, or its"
            " folder `repo`"
        )
    if dataset_version == CONSTRUCTION_REPOSITORIES:
        if files := _first_files(repository_folders, REPOSITORY_FILES):
            return files
        raise SourceUnreadable(
            f"{source} contains none of {', '.join(REPOSITORY_FILES)}[.gz]. Pass the folder that"
            " contains them"
        )
    if dataset_version in ("v0", CONSTRUCTION):
        repository_folders = ()
    function_folders = _function_folders(source, dataset_version)
    functions = _first_files(function_folders, (TASK_FILES,))
    repositories = _first_files(repository_folders, REPOSITORY_FILES)
    if functions or repositories:
        return (*functions, *repositories)
    folders = ", ".join(map(str, dict.fromkeys((*function_folders, *repository_folders))))
    raise SourceUnreadable(
        f"{source} contains no CodeIF-Bench {dataset_version} task file: no {TASK_FILES}[.gz] in"
        f" {folders}. Pass the folder of the benchmark's repository, or the file itself"
    )


def _function_folders(source: Path, dataset_version: str) -> tuple[Path, ...]:
    if dataset_version == "v0":
        sibling = (source.parent / "v0" / "function",) if source.name == "function" else ()
        return (source / "v0" / "function", *sibling, source / "function", source)
    if dataset_version == "current" and "v0" in (source.name, source.parent.name):
        raise SourceUnreadable(
            f"{source} is the first release, not the current files."
            " Stage it with --dataset-version v0, or pass the parent folder of v0"
        )
    return (source, source / "function")


def _first_files(folders: tuple[Path, ...], patterns: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the matching files of the first folder that has any."""
    found = (matching(folder, *patterns) for folder in folders)
    return next((tuple(sorted(files)) for files in found if files), ())
