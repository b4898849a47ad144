"""ConvCodeBench: logged turns of a reference model as one-message dialogs (section 3).

Error messages on rows of the log files, and of the files with test results in the same folder, name
file and line.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar

from pydantic import Field, ValidationError

from schemas.content_id import content_id
from schemas.dialog import Dialog
from schemas.episode import Feedback, FeedbackSetting, VerbalFeedback
from schemas.errors import SourceUnreadable
from schemas.problem import Problem
from tasks.benchmarks.convcode.log_files.log_folder import LogFolder, eval_file, find_logs
from tasks.benchmarks.convcode.settings import MOST_TURNS, NO_SYNTAX_ERRORS, STATIC, compose
from tasks.benchmarks.raw_rows import RawModel, Text, read_models
from tasks.benchmarks.staging import dialog_of, question


class FirstAnswer(RawModel):
    """Row of the first answers (turn 0)."""

    task_id: Text
    solution: str
    dataset_version: str | None = None
    """Version of the data.

    Upstream's rows do not state their data. The fields `dataset_version`, `row_digest` and `turns`
    are Parley's.
    """
    row_digest: str | None = None
    turns: int | None = Field(default=None, ge=1)
    """Number of feedback turns of the logged run."""


class LogRow(FirstAnswer):
    """Row of turn 1 or later: feedback on the previous turn and the resulting code."""

    compilation_feedback: str | None
    execution_feedback: str | None
    user_feedback: str | None
    iteration: int

    @property
    def feedback(self) -> Feedback:
        """Return the feedback on the earlier code. Its parts are None if that code had passed."""
        return Feedback(
            compilation=self.compilation_feedback,
            execution=self.execution_feedback,
            verbal=self.user_feedback,
        )

    @property
    def requests_fix(self) -> bool:
        """Return True if the model was asked to fix the earlier code.

        The request contained a user's feedback, or else the compiler's message. There is no user's
        feedback in two cases: upstream asks no expert about code that still does not compile after
        three requests, and a novice makes no comment if the shown tests pass.
        """
        return self.user_feedback is not None or self.compilation_feedback not in (
            None,
            NO_SYNTAX_ERRORS,
        )


class _Result(RawModel):
    status: Literal["pass", "fail", "timeout"]


class _Results(RawModel):
    eval: dict[str, list[_Result]]


Row = TypeVar("Row", bound=FirstAnswer)


@dataclass(frozen=True, slots=True)
class Placed(Generic[Row]):
    """Row with its location, for error messages."""

    place: str
    row: Row


def read_rows(path: Path, kind: type[Row]) -> dict[str, Placed[Row]]:
    """Return all rows of a log file by task.

    Raises:
        SourceUnreadable: A line is not such a row, or a task has two rows. The message names the
            line.
    """
    rows: dict[str, Placed[Row]] = {}
    for placed in (Placed(place, row) for place, row in read_models(path, kind)):
        first = rows.setdefault(placed.row.task_id, placed)
        if first is not placed:
            raise SourceUnreadable(
                f"{placed.place}: task {placed.row.task_id!r} already has a row ({first.place}). "
                "Remove one of them"
            )
    return rows


def read_passed(path: Path) -> dict[str, bool]:
    """Return task -> True if the task's code passed all its tests, from a file of test results.

    Raises:
        SourceUnreadable: The file is missing or invalid, or a task has several results. The message
            names the task.
    """
    try:
        results = _Results.model_validate(json.loads(path.read_bytes()))
    except FileNotFoundError:
        raise SourceUnreadable(
            f"{path} is missing, so it is unknown which code passed. Put it beside its log"
        ) from None
    except ValidationError as invalid:
        first = invalid.errors()[0]
        raise SourceUnreadable(
            f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        ) from None
    except (OSError, ValueError, RecursionError) as fault:
        raise SourceUnreadable(f"{path} cannot be read as JSON ({fault}). Fetch it again") from None
    for task, results_of_task in results.eval.items():
        if len(results_of_task) != 1:
            raise SourceUnreadable(
                f"{path}: task {task!r} has {len(results_of_task)} results instead of one"
            )
    return {task: results[0].status == "pass" for task, results in results.eval.items()}


EXTRA_CALLS = 3
"""Maximum difference between a row's `iteration` and the turn of its file.

Upstream increases `iteration` with each request of a turn.
"""


@dataclass(frozen=True)
class _Logged:
    """Logs of one setting: the rows and test outcomes of all turns."""

    feedback: FeedbackSetting
    first: Mapping[str, Placed[FirstAnswer]]
    turns: tuple[Mapping[str, Placed[LogRow]], ...]
    """Rows by task for each turn, starting with turn 1."""
    passed: tuple[Mapping[str, bool], ...]
    """Test outcome by task for each turn, starting with turn 0."""

    def code(self, task: str, turn: int) -> str:
        return (self.turns[turn - 1][task] if turn else self.first[task]).row.solution

    def solved_at(self, task: str) -> int | None:
        """Return the first turn whose code passes, or None."""
        return next((turn for turn, passed in enumerate(self.passed) if passed[task]), None)


def static_dialogs(problems: Sequence[Problem], folder: Path) -> tuple[Dialog, ...]:
    """Return the dialogs of the logs that are worth replaying.

    For each setting and task these are the problem itself (turn 0), and every turn in which the
    reference model was asked to fix its code.

    Two kinds of turns have no dialog: turns after the reference first solved its task, and turns in
    which no error was shown and a novice made no comment. For those turns, the earlier code counts,
    and labels state whether it passes.

    Raises:
        SourceUnreadable: The logs miss turns or tasks, belong to other tasks or another version of
            the data, mix models or simulators, or contradict themselves. The message names file and
            line.
    """
    log_folder = find_logs(folder)
    problems_by_id = {problem.problem_id: problem for problem in problems}
    replayed = [feedback for feedback in STATIC.values() if feedback in log_folder.logs]
    if not replayed:
        raise SourceUnreadable(
            f"{folder} has no log with verbal feedback, which is required for a replay"
            f" ({', '.join(feedback.name for feedback in STATIC.values())})"
        )
    return tuple(
        dialog
        for feedback in replayed
        for dialog in _setting_dialogs(
            _read(log_folder, feedback, problems_by_id), log_folder, problems_by_id
        )
    )


def _read(
    log_folder: LogFolder, feedback: FeedbackSetting, problems: Mapping[str, Problem]
) -> _Logged:
    files = log_folder.turns(feedback)
    first = read_rows(files[0], FirstAnswer)
    turns = tuple(read_rows(path, LogRow) for turn, path in files.items() if turn)
    log_folder.require(
        feedback, range(1, _turns_of_run(turns) + 1), "the logged run had these turns"
    )
    for turn, rows in enumerate(turns, 1):
        for placed in rows.values():
            _require_fit(placed, problems)
            _require_iteration(placed, turn)
    for placed in (first[task] for task in first if task in problems):
        _require_version(placed, problems[placed.row.task_id])
    _require_tasks(files, first, turns, problems)
    if files[0] != log_folder.first_answers:
        _require_no_more(files, first, turns[0])
    passed = tuple(_passed(path, turns[0]) for path in files.values())
    logged = _Logged(feedback, first, turns, passed)
    for task in turns[0]:
        _require_sense(logged, task)
    return logged


def _turns_of_run(turns: Sequence[Mapping[str, Placed[LogRow]]]) -> int:
    rows_by_turns = {placed.row.turns: placed for rows in turns for placed in rows.values()}
    if len(rows_by_turns) > 1:
        first, second = list(rows_by_turns.values())[:2]
        raise SourceUnreadable(
            f"{second.place}: turns is {second.row.turns}, but {first.row.turns} in {first.place}. "
            "Use the logs of one run"
        )
    return next(iter(rows_by_turns), None) or MOST_TURNS


def _require_fit(placed: Placed[LogRow], problems: Mapping[str, Problem]) -> None:
    problem = problems.get(placed.row.task_id)
    if problem is None:
        some = ", ".join(list(problems)[:3])
        raise SourceUnreadable(
            f"{placed.place}: task {placed.row.task_id!r} is not one of the {len(problems)} tasks"
            f" ({some}, …). Replay logs with the data from which they were made"
        )
    _require_version(placed, problem)


def _require_version(placed: Placed[LogRow] | Placed[FirstAnswer], problem: Problem) -> None:
    row = placed.row
    if row.dataset_version not in (None, problem.dataset_version):
        raise SourceUnreadable(
            f"{placed.place}: task {row.task_id!r} was logged with version {row.dataset_version!r},"
            f" not {problem.dataset_version!r}. Use --dataset-version {row.dataset_version}"
        )
    if row.row_digest not in (None, problem.row_digest):
        raise SourceUnreadable(
            f"{placed.place}: task {row.task_id!r} has changed since it was logged"
            f" (row {row.row_digest}, now {problem.row_digest}). Replay logs with the data from"
            " which they were made, or rebuild them"
        )


def _require_iteration(placed: Placed[LogRow], turn: int) -> None:
    if not turn <= placed.row.iteration <= turn + EXTRA_CALLS:
        raise SourceUnreadable(
            f"{placed.place}: iteration {placed.row.iteration} of task {placed.row.task_id!r}"
            f" does not belong in a file of turn {turn} ({turn} to {turn + EXTRA_CALLS})."
            " Restore the file's name"
        )


def _require_tasks(
    files: Mapping[int, Path],
    first: Mapping[str, Placed[FirstAnswer]],
    turns: Sequence[Mapping[str, Placed[LogRow]]],
    problems: Mapping[str, Problem],
) -> None:
    """Check that every turn has the same tasks, and all tasks if rows do not state their data."""
    logged = {task: placed for rows in turns for task, placed in rows.items()}
    for turn, rows in enumerate((first, *turns)):
        for task, placed in logged.items():
            if task not in rows:
                raise SourceUnreadable(
                    f"{placed.place} is a row of task {task!r}, but {files[turn]} has no row of"
                    " this task. Download both files again, or rebuild them"
                )
    if any(placed.row.row_digest is None for placed in logged.values()):
        for task in problems:
            if task not in logged:
                raise SourceUnreadable(
                    f"{files[1]} has no row of task {task!r}. Logs that do not"
                    f" state the version of their data need exactly their tasks ({len(logged)},"
                    f" but the data have {len(problems)})"
                )


def _require_no_more(
    files: Mapping[int, Path],
    first: Mapping[str, Placed[FirstAnswer]],
    later: Mapping[str, Placed[LogRow]],
) -> None:
    """Check that every first answer has later turns. Upstream's first answers need none."""
    for task, placed in first.items():
        if task not in later:
            raise SourceUnreadable(
                f"{placed.place} contains the first answer of task {task!r}, but {files[1]} has no"
                " row of this task. Download both files again, or rebuild them"
            )


def _passed(log: Path, tasks: Mapping[str, object]) -> dict[str, bool]:
    passed = read_passed(eval_file(log))
    for task in tasks:
        if task not in passed:
            raise SourceUnreadable(
                f"{eval_file(log)} has no result of task {task!r}. Use log and results of one run"
            )
    return passed


def _require_sense(logged: _Logged, task: str) -> None:
    """Check that there is feedback exactly on code that had failed, except for a silent novice.

    Earlier passes are ignored: with flaky tests, repeated code may fail, and upstream then
    continues.
    """
    for turn, rows in enumerate(logged.turns, 1):
        placed, had_passed = rows[task], logged.passed[turn - 1][task]
        if placed.row.requests_fix and had_passed:
            raise SourceUnreadable(
                f"{placed.place}: feedback on code of task {task!r},"
                f" which passed at turn {turn - 1}. Use log and results of one run"
            )
        if (
            not placed.row.requests_fix
            and not had_passed
            and logged.feedback.verbal is VerbalFeedback.EXPERT
        ):
            raise SourceUnreadable(
                f"{placed.place}: no expert's feedback on code of task {task!r},"
                " which did not pass. Use log and results of one run"
            )


def _setting_dialogs(
    logged: _Logged, log_folder: LogFolder, problems: Mapping[str, Problem]
) -> Iterator[Dialog]:
    for task in logged.turns[0]:
        solved_at = logged.solved_at(task)
        requested_turns = [
            turn
            for turn, rows in enumerate(logged.turns[:solved_at], 1)
            if rows[task].row.requests_fix
        ]
        labels = (
            ("part", "static"),
            ("setting", logged.feedback.name),
            ("last_iteration", str(len(logged.turns))),
            ("reference_model", log_folder.model),
            ("simulator", log_folder.simulator),
            ("reference_solved_at", "" if solved_at is None else str(solved_at)),
            ("asked", ",".join(map(str, (0, *requested_turns)))),
        )
        yield _dialog(problems[task], 0, problems[task].prompt, labels, ())
        for turn in requested_turns:
            code, feedback = logged.code(task, turn - 1), logged.turns[turn - 1][task].row.feedback
            yield _dialog(
                problems[task],
                turn,
                compose(problems[task].prompt, code, feedback),
                labels,
                (code, feedback),
            )


def _dialog(
    problem: Problem,
    turn: int,
    message: str,
    labels: tuple[tuple[str, str], ...],
    logged: tuple[object, ...],
) -> Dialog:
    """Return a logged turn as a dialog.

    Its digest covers the log, not the wording of the message.
    """
    labels = (("iteration", str(turn)), *labels)
    return dialog_of(
        problem,
        question(1, message),
        labels,
        f"{problem.problem_id}#{dict(labels)['setting']}#{turn}",
        content_id((problem.row_digest, labels, logged)),
    )
