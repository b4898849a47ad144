"""Staging of CodeIF-Bench: dialogs and problems of function (L1 part 1) and repository tasks."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas.content_id import content_id
from schemas.dialog import Dialog, Role, Turn
from schemas.problem import BASE_INSTRUCTION, Instruction, Problem, TestSuite
from tasks.benchmarks.codeif.construction.comments import CONSTRUCTION, read_comments
from tasks.benchmarks.codeif.raw_row import RawRow, parse_row
from tasks.benchmarks.codeif.repositories.raw_repository import parse_repository_row
from tasks.benchmarks.codeif.repositories.repository import (
    CONSTRUCTION_REPOSITORIES,
    RAW_ROW,
    repository_dialog,
    repository_problem,
)
from tasks.benchmarks.codeif.repositories.repository_recording import LEVEL_1, published_turns
from tasks.benchmarks.codeif.source import task_files
from tasks.benchmarks.codeif.strategies import (
    STRATEGIES,
    STRATEGY_SLOT,
    imported_packages,
    problem_id,
)
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.raw_rows import BadRow, Line, parse_object, read_lines, relative_name
from tasks.benchmarks.staging import Staging

BENCHMARK_NAME = "codeif"
LEVEL = "L1"
_REPLACED = ("prompt", "code", "context", "requirements", "multi-turn")
"""Fields of a repository task's row that a build replaces or drops."""


def stage(source: Path, dataset_version: str) -> Staged:
    """Stage a task file, or the task files of a folder.

    An input row is a line that is not blank, or a fault that ends a file. Each is staged or
    quarantined.

    Raises:
        SourceUnreadable: there is no task file, or no file has a readable line.
    """
    files = task_files(source, dataset_version)
    turns = published_turns(source) if dataset_version == LEVEL_1 else {}
    staging = Staging(BENCHMARK_NAME, dataset_version)
    for path in files:
        file = relative_name(path, source)
        staging.add_lines(
            file,
            read_lines(path),
            lambda line, file=file: _stage_line(line, file, dataset_version, turns),
        )
    staging.require_lines(source, len(files))
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


def _stage_line(
    line: Line, file: str, dataset_version: str, turns: Mapping[str, tuple[str, ...]]
) -> tuple[Problem, list[Dialog]]:
    """Stage a row; the turns of published runs, if given, replace the row's own."""
    raw = parse_object(line.content)
    if "namespace" in raw:
        turn_names = turns.get(raw["namespace"]) if isinstance(raw["namespace"], str) else None
        raw |= {"multi-turn": list(turn_names)} if turn_names else {}
        return _stage_repository(raw, file, line.number, dataset_version)
    row = parse_row(raw)
    problem = _problem(row, _digest(raw), dataset_version, file, line.number)
    return problem, [_dialog(row, problem)]


def _stage_repository(
    raw: dict[str, Any], file: str, line: int, dataset_version: str
) -> tuple[Problem, list[Dialog]]:
    row = parse_repository_row(raw)
    problem = repository_problem(row, _digest(raw), BENCHMARK_NAME, dataset_version, file, line)
    dialog = repository_dialog(row, problem)
    if dataset_version == CONSTRUCTION_REPOSITORIES:
        raw_json = json.dumps(
            {name: value for name, value in raw.items() if name not in _REPLACED},
            ensure_ascii=False,
        )
        dialog = dialog.model_copy(update={"labels": (*dialog.labels, (RAW_ROW, raw_json))})
    return problem, [dialog]


def _digest(raw: dict[str, Any]) -> str:
    try:
        return content_id(raw)
    except (ValueError, RecursionError) as fault:
        raise BadRow("wrong_type", str(fault)) from None


def _problem(row: RawRow, digest: str, dataset_version: str, file: str, line: int) -> Problem:
    base = Instruction(
        instruction_id=BASE_INSTRUCTION, text=row.prompt, suite=TestSuite(tests=tuple(row.test))
    )
    others = tuple(
        Instruction(
            instruction_id=name,
            text=row.requirements[name].requirement,
            suite=TestSuite(tests=tuple(row.requirements[name].unit_test)),
        )
        for name in STRATEGIES
        if name in row.requirements
    )
    return Problem(
        benchmark=BENCHMARK_NAME,
        dataset_version=dataset_version,
        problem_id=problem_id(row.task_id),
        level=LEVEL,
        prompt=row.prompt,
        instructions=(base, *others),
        reference_code=row.code,
        packages=imported_packages(
            test for instruction in (base, *others) for test in instruction.suite.tests
        ),
        source_file=file,
        source_line=line,
        row_digest=digest,
    )


def _dialog(row: RawRow, problem: Problem) -> Dialog:
    turns: list[Turn] = []
    for number, name in enumerate((BASE_INSTRUCTION, *row.turn_order(problem.dataset_version)), 1):
        labels = (("strategy_slot", str(STRATEGY_SLOT[name])),)
        text = problem.instruction(name).text
        turns.append(
            Turn(turn=number, role=Role.USER, content=text, instruction_id=name, labels=labels)
        )
        turns.append(Turn(turn=number, role=Role.ASSISTANT))
    return Dialog(
        benchmark=BENCHMARK_NAME,
        dataset_version=problem.dataset_version,
        dialog_id=problem.problem_id,
        problem_id=problem.problem_id,
        turns=tuple(turns),
        labels=(("level", LEVEL),),
        row_digest=problem.row_digest,
    )
