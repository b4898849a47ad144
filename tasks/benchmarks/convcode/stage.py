"""Stages problems of every source, in BigCodeBench's form, with their dialogs. Other rows are quarantined with their reason."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Dialog, Role, Turn
from schemas.errors import SourceUnreadable
from schemas.problem import BASE_INSTRUCTION, Instruction, Problem, QuarantinedRow, TestSuite
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.convcode.log_files.logs import static_dialogs
from tasks.benchmarks.convcode.packages import distributions, imported_modules
from tasks.benchmarks.convcode.raw_row import COLUMNS, Task, require_tests
from tasks.benchmarks.convcode.source import LOGS, read_rows, task_files
from tasks.benchmarks.convcode.sources import SOURCES
from tasks.benchmarks.raw_lines import BadRow, Fault, Line, nothing_read, parse_object, quarantined_row, relative_name
from tasks.benchmarks.raw_tables import is_hub_dataset, read_hub

BENCHMARK_NAME = "convcode"


def stage(source: Path, dataset_version: str) -> Staged:
    """Stage the task files at a path, or a dataset of the hub (`hf:OWNER/NAME[@SPLIT]`, BigCodeBench's form only).

    Each problem has a live dialog; where the folder has `logs`, their replays follow. An input row is a line that is not
    blank, a row of a table, or a fault that ends a file; each is staged or quarantined.

    Raises:
        SourceUnreadable: no task file, none with a single row that can be read, or logs that do not fit the tasks.
    """
    rows = _Rows(dataset_version)
    if is_hub_dataset(source):
        if dataset_version != "bigcodebench":
            raise SourceUnreadable(f"{source}: only dataset version bigcodebench is read from the hub, not {dataset_version}")
        name, lines = read_hub(source, COLUMNS)
        rows.add(name, lines)
        n_files = 1
    else:
        files = task_files(source, dataset_version)
        for path in files:
            rows.add(relative_name(path, source), read_rows(path))
        n_files = len(files)
    if not rows.n_lines:
        raise SourceUnreadable(nothing_read(source, n_files, rows.quarantined))
    problems = tuple(rows.problems)
    logged = static_dialogs(problems, source / LOGS) if (source / LOGS).is_dir() else ()
    dialogs = (*map(live_dialog, problems), *logged)
    return Staged(dialogs, problems, tuple(rows.quarantined), n_input=rows.n_lines + rows.n_faults)


def live_dialog(problem: Problem) -> Dialog:
    """The dialogue that begins with the problem's instruction; feedback makes its later messages."""
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


@dataclass
class _Rows:
    """Rows staged and quarantined so far."""

    dataset_version: str
    problems: list[Problem] = field(default_factory=list[Problem])
    quarantined: list[QuarantinedRow] = field(default_factory=list[QuarantinedRow])
    n_lines: int = 0
    n_faults: int = 0
    _first_seen: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, file: str, rows: Iterable[Line | Fault]) -> None:
        """Stage or quarantine each row of a file."""
        for row in rows:
            content = b""
            try:
                if isinstance(row, Fault):
                    self.n_faults += 1
                    raise BadRow(row.reason, row.detail)
                self.n_lines += 1
                content = row.content
                self.problems.append(self._problem(row, file))
            except BadRow as bad:
                quarantined = quarantined_row(BENCHMARK_NAME, self.dataset_version, file, row.number, bad, content)
                self.quarantined.append(quarantined)

    def _problem(self, row: Line, file: str) -> Problem:
        source = SOURCES[self.dataset_version]
        task = require_tests(source.task(parse_object(row.content)))
        if task.task_id in self._first_seen:
            first = self._first_seen[task.task_id]
            raise BadRow("duplicate_id", f"task_id {task.task_id} was in {first} already; the first one is kept")
        self._first_seen[task.task_id] = f"{file}:{row.number}"
        level = task.task_id.partition("/")[0].lower() if source.levels else "all"
        return _problem_of(task, level, self.dataset_version, file, row.number)


def _problem_of(task: Task, level: str, dataset_version: str, file: str, line: int) -> Problem:
    suite = TestSuite(tests=(task.test,), kind="unittest")
    return Problem(
        benchmark=BENCHMARK_NAME,
        dataset_version=dataset_version,
        problem_id=task.task_id,
        level=level,
        prompt=task.instruct_prompt,
        instructions=(Instruction(instruction_id=BASE_INSTRUCTION, text=task.instruct_prompt, suite=suite),),
        reference_code=task.gold,
        packages=distributions((*task.libs, *imported_modules(task.test))),
        source_file=file,
        source_line=line,
        row_digest=content_id(task),
    )
