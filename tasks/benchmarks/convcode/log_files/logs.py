"""ConvCodeBench: a reference model's logged turns as dialogs of one message each, all independent (paper section 3)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Dialog, Role, Turn
from schemas.errors import SourceUnreadable
from schemas.feedback import FeedbackSetting, VerbalFeedback
from schemas.problem import BASE_INSTRUCTION, Problem
from tasks.benchmarks.convcode.feedback_texts import compose
from tasks.benchmarks.convcode.log_files.log_folder import LogFolder, find_logs
from tasks.benchmarks.convcode.log_files.log_names import eval_file
from tasks.benchmarks.convcode.log_files.log_rows import (
    FirstAnswer,
    LogRow,
    Placed,
    read_passed,
    read_rows,
)
from tasks.benchmarks.convcode.settings import MOST_TURNS, STATIC

EXTRA_CALLS = 3
"""Upstream counts on in `iteration` with each request of a turn; a turn has at most three."""


@dataclass(frozen=True)
class _Logged:
    """One setting's logs."""

    feedback: FeedbackSetting
    first: Mapping[str, Placed[FirstAnswer]]
    turns: tuple[Mapping[str, Placed[LogRow]], ...]
    """Turn 1 first."""
    passed: tuple[Mapping[str, bool], ...]
    """Turn 0 first."""

    def code(self, task: str, turn: int) -> str:
        return (self.turns[turn - 1][task] if turn else self.first[task]).row.solution

    def solved_at(self, task: str) -> int | None:
        """The first turn whose code passes."""
        return next((turn for turn, passed in enumerate(self.passed) if passed[task]), None)


def static_dialogs(problems: Sequence[Problem], folder: Path) -> tuple[Dialog, ...]:
    """Return the dialogs of the logs that are worth replaying.

    For each setting and task these are the problem itself (turn 0), and every turn in which the
    reference model was asked to fix its code.

    Two kinds of turns have no dialog: turns after the reference first solved its task, and turns where no error was shown and a
    novice had nothing to say. There the earlier code is carried on, and labels tell whether it passes.

    Raises:
        SourceUnreadable: logs with missing turns or tasks, of other tasks or of another version of the data, of two models or
            simulators, or that contradict themselves; names file and line.
    """
    found = find_logs(folder)
    known = {problem.problem_id: problem for problem in problems}
    wanted = [feedback for feedback in STATIC.values() if feedback in found.logs]
    if not wanted:
        raise SourceUnreadable(
            f"{folder} holds no log that is replayed: those have verbal feedback"
            f" ({', '.join(feedback.name for feedback in STATIC.values())})"
        )
    return tuple(
        dialog
        for feedback in wanted
        for dialog in _setting_dialogs(_read(found, feedback, known), found, known)
    )


def _read(found: LogFolder, feedback: FeedbackSetting, known: Mapping[str, Problem]) -> _Logged:
    files = found.turns(feedback)
    first = read_rows(files[0], FirstAnswer)
    turns = tuple(read_rows(path, LogRow) for turn, path in files.items() if turn)
    found.require(
        feedback, range(1, _turns_of_run(turns) + 1), "the run that was logged had these turns"
    )
    for turn, rows in enumerate(turns, 1):
        for placed in rows.values():
            _require_fit(placed, known)
            _require_iteration(placed, turn)
    for placed in (first[task] for task in first if task in known):
        _require_version(placed, known[placed.row.task_id])
    _require_tasks(files, first, turns, known)
    if files[0] != found.first_answers:
        _require_no_more(files, first, turns[0])
    passed = tuple(_passed(path, turns[0]) for path in files.values())
    logged = _Logged(feedback, first, turns, passed)
    for task in turns[0]:
        _require_sense(logged, task)
    return logged


def _turns_of_run(turns: Sequence[Mapping[str, Placed[LogRow]]]) -> int:
    stated = {placed.row.turns: placed for rows in turns for placed in rows.values()}
    if len(stated) > 1:
        one, other = list(stated.values())[:2]
        raise SourceUnreadable(
            f"{other.place}: turns is {other.row.turns}, but {one.row.turns} in {one.place}: logs of two runs"
        )
    return next(iter(stated), None) or MOST_TURNS


def _require_fit(placed: Placed[LogRow], known: Mapping[str, Problem]) -> None:
    problem = known.get(placed.row.task_id)
    if problem is None:
        some = ", ".join(list(known)[:3])
        raise SourceUnreadable(
            f"{placed.place}: task {placed.row.task_id!r} is not among the {len(known)} tasks ({some}, …)."
            " Replay logs with the data that they were made with"
        )
    _require_version(placed, problem)


def _require_version(placed: Placed[LogRow] | Placed[FirstAnswer], problem: Problem) -> None:
    row = placed.row
    if row.dataset_version not in (None, problem.dataset_version):
        raise SourceUnreadable(
            f"{placed.place}: task {row.task_id!r} was logged with dataset version {row.dataset_version!r},"
            f" not {problem.dataset_version!r}: say --dataset-version {row.dataset_version}, with its data"
        )
    if row.row_digest not in (None, problem.row_digest):
        raise SourceUnreadable(
            f"{placed.place}: task {row.task_id!r} reads otherwise than when it was logged (row {row.row_digest}, now"
            f" {problem.row_digest}). Replay logs with the data that they were made with, or build them anew"
        )


def _require_iteration(placed: Placed[LogRow], turn: int) -> None:
    if not turn <= placed.row.iteration <= turn + EXTRA_CALLS:
        raise SourceUnreadable(
            f"{placed.place}: iteration {placed.row.iteration} of task {placed.row.task_id!r} does not belong in a file of turn"
            f" {turn} ({turn} to {turn + EXTRA_CALLS}). Was the file renamed?"
        )


def _require_tasks(
    files: Mapping[int, Path],
    first: Mapping[str, Placed[FirstAnswer]],
    turns: Sequence[Mapping[str, Placed[LogRow]]],
    known: Mapping[str, Problem],
) -> None:
    """Every turn has the same tasks; and all of the dataset where rows do not say which data they were made with."""
    logged = {task: placed for rows in turns for task, placed in rows.items()}
    for turn, rows in enumerate((first, *turns)):
        for task, placed in logged.items():
            if task not in rows:
                raise SourceUnreadable(
                    f"{files[turn]} has no row of task {task!r}, which {placed.place} goes on with. Fetch the log again, or"
                    " build it anew"
                )
    if any(placed.row.row_digest is None for placed in logged.values()):
        for task in known:
            if task not in logged:
                raise SourceUnreadable(
                    f"{files[1]} has no row of task {task!r}: logs that do not say which version of the data they were made with"
                    f" are replayed with exactly their tasks ({len(logged)}, here are {len(known)})"
                )


def _require_no_more(
    files: Mapping[int, Path],
    first: Mapping[str, Placed[FirstAnswer]],
    later: Mapping[str, Placed[LogRow]],
) -> None:
    """Upstream's first answers may be of more tasks than the logs; in ours every task goes on."""
    for task, placed in first.items():
        if task not in later:
            raise SourceUnreadable(
                f"{files[1]} has no row of task {task!r}, which {placed.place} begins with"
            )


def _passed(log: Path, tasks: Mapping[str, object]) -> dict[str, bool]:
    passed = read_passed(eval_file(log))
    for task in tasks:
        if task not in passed:
            raise SourceUnreadable(
                f"{eval_file(log)} has no result of task {task!r}. Take log and results from one run"
            )
    return passed


def _require_sense(logged: _Logged, task: str) -> None:
    """Feedback is given exactly where the code of the turn before had failed; but a novice may say nothing.

    A pass further back decides nothing: where tests waver, the code that was carried on may fail, and upstream asks again.
    """
    for turn, rows in enumerate(logged.turns, 1):
        placed, had_passed = rows[task], logged.passed[turn - 1][task]
        if placed.row.was_asked and had_passed:
            raise SourceUnreadable(
                f"{placed.place}: feedback on code of task {task!r} that had passed at turn {turn - 1}, as the results say."
                " Take log and results from one run"
            )
        if (
            not placed.row.was_asked
            and not had_passed
            and logged.feedback.verbal is VerbalFeedback.EXPERT
        ):
            raise SourceUnreadable(
                f"{placed.place}: no expert's feedback on code of task {task!r}, which had not passed, as the results say."
                " Take log and results from one run"
            )


def _setting_dialogs(
    logged: _Logged, found: LogFolder, known: Mapping[str, Problem]
) -> Iterator[Dialog]:
    for task in logged.turns[0]:
        solved_at = logged.solved_at(task)
        asked = [
            turn
            for turn, rows in enumerate(logged.turns[:solved_at], 1)
            if rows[task].row.was_asked
        ]
        labels = (
            ("part", "static"),
            ("setting", logged.feedback.name),
            ("last_iteration", str(len(logged.turns))),
            ("reference_model", found.model),
            ("simulator", found.simulator),
            ("reference_solved_at", "" if solved_at is None else str(solved_at)),
            ("asked", ",".join(map(str, (0, *asked)))),
        )
        yield _dialog(known[task], 0, known[task].prompt, labels, ())
        for turn in asked:
            code, feedback = logged.code(task, turn - 1), logged.turns[turn - 1][task].row.feedback
            yield _dialog(
                known[task],
                turn,
                compose(known[task].prompt, code, feedback),
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
    """A turn as a dialog of its own; its digest covers what was logged, not how the message puts it."""
    labels = (("iteration", str(turn)), *labels)
    return Dialog(
        benchmark=problem.benchmark,
        dataset_version=problem.dataset_version,
        dialog_id=f"{problem.problem_id}#{dict(labels)['setting']}#{turn}",
        problem_id=problem.problem_id,
        turns=(
            Turn(turn=1, role=Role.USER, content=message, instruction_id=BASE_INSTRUCTION),
            Turn(turn=1, role=Role.ASSISTANT),
        ),
        labels=labels,
        row_digest=content_id((problem.row_digest, labels, logged)),
        problem_digest=problem.row_digest,
    )
