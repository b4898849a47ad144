"""Rows of ConvCodeBench's log files, and of the files with test results in the same folder.

Error messages name file and line.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar

from pydantic import Field, ValidationError

from schemas.episode import Feedback
from schemas.errors import SourceUnreadable
from tasks.benchmarks.convcode.prompts import NO_SYNTAX_ERRORS
from tasks.benchmarks.raw_rows import RawModel, Text, read_models


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
