"""Stage problems of every source with their dialogs. Invalid rows are quarantined with a reason."""

from collections.abc import Iterable
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Dialog, Role, Turn
from schemas.errors import SourceUnreadable
from schemas.problem import BASE_INSTRUCTION, Instruction, Problem, TestSuite
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.convcode.log_files.logs import static_dialogs
from tasks.benchmarks.convcode.programs import distributions, imported_modules
from tasks.benchmarks.convcode.raw_row import COLUMNS, Task, require_tests
from tasks.benchmarks.convcode.source import LOGS, read_rows, task_files
from tasks.benchmarks.convcode.sources import SOURCES
from tasks.benchmarks.raw_rows import (
    Fault,
    Line,
    is_hub_dataset,
    parse_object,
    read_hub,
    relative_name,
)
from tasks.benchmarks.staging import Staging

BENCHMARK_NAME = "convcode"


def stage(source: Path, dataset_version: str) -> Staged:
    """Stage task files, or a dataset of the hub in BigCodeBench's form.

    A hub dataset is named `hf:OWNER/NAME[@SPLIT]`. Each problem has a live dialog. If the folder
    contains `logs`, the dialogs that replay them follow. An input row is a non-blank line, a row of
    a table, or a fault that ends a file. Each is staged or quarantined.

    Raises:
        SourceUnreadable: There is no task file, no readable row, or the logs do not fit the tasks.
    """
    staging = Staging(BENCHMARK_NAME, dataset_version)

    def add(file: str, rows: Iterable[Line | Fault]) -> None:
        staging.add_lines(file, rows, lambda row: _make(row, file, dataset_version))

    if is_hub_dataset(source):
        if dataset_version != "bigcodebench":
            raise SourceUnreadable(
                f"{source}: only version bigcodebench is read from the hub, not {dataset_version}"
            )
        name, lines = read_hub(source, COLUMNS)
        add(name, lines)
        n_files = 1
    else:
        files = task_files(source, dataset_version)
        for path in files:
            add(relative_name(path, source), read_rows(path))
        n_files = len(files)
    staging.require_lines(source, n_files)
    if (source / LOGS).is_dir():
        staging.dialogs.extend(static_dialogs(tuple(staging.problems), source / LOGS))
    return staging.staged()


def live_dialog(problem: Problem) -> Dialog:
    """Return the dialog that starts with the problem's instruction and continues with feedback."""
    return Dialog(
        benchmark=BENCHMARK_NAME,
        dataset_version=problem.dataset_version,
        dialog_id=problem.problem_id,
        problem_id=problem.problem_id,
        turns=(
            Turn(turn=1, role=Role.USER, content=problem.prompt, instruction_id=BASE_INSTRUCTION),
            Turn(turn=1, role=Role.ASSISTANT),
        ),
        labels=(("part", "live"),),
        row_digest=problem.row_digest,
    )


def _make(row: Line, file: str, dataset_version: str) -> tuple[Problem, list[Dialog]]:
    source = SOURCES[dataset_version]
    task = require_tests(source.task(parse_object(row.content)))
    level = task.task_id.partition("/")[0].lower() if source.levels else "all"
    problem = _problem_of(task, level, dataset_version, file, row.number)
    return problem, [live_dialog(problem)]


def _problem_of(task: Task, level: str, dataset_version: str, file: str, line: int) -> Problem:
    suite = TestSuite(tests=(task.test,), kind="unittest")
    return Problem(
        benchmark=BENCHMARK_NAME,
        dataset_version=dataset_version,
        problem_id=task.task_id,
        level=level,
        prompt=task.instruct_prompt,
        instructions=(
            Instruction(instruction_id=BASE_INSTRUCTION, text=task.instruct_prompt, suite=suite),
        ),
        reference_code=task.gold,
        packages=distributions((*task.libs, *imported_modules(task.test))),
        source_file=file,
        source_line=line,
        row_digest=content_id(task),
    )
