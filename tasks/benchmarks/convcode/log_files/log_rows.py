"""Reads rows of ConvCodeBench's log files, and the test results beside them. A refusal names file and line."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from schemas.errors import SourceUnreadable
from schemas.feedback import Feedback
from tasks.benchmarks.convcode.feedback_texts import NO_SYNTAX_ERRORS
from tasks.benchmarks.convcode.raw_row import RAW
from tasks.benchmarks.raw_lines import BadRow, Fault, Text, parse_object, read_lines, validated


class FirstAnswer(BaseModel):
    """A row of the first answers (turn 0)."""

    model_config = RAW

    task_id: Text
    solution: str
    dataset_version: str | None = None
    """Like the two fields below, ours alone: upstream's rows do not say which data they were made with."""
    row_digest: str | None = None
    turns: int | None = Field(default=None, ge=1)
    """Feedback turns of the run that the logs are of."""


class LogRow(FirstAnswer):
    """A row of turn 1 and up: the feedback on the turn before, and the code it led to."""

    compilation_feedback: str | None
    execution_feedback: str | None
    user_feedback: str | None
    iteration: int

    @property
    def feedback(self) -> Feedback:
        """Feedback on the earlier code; None where that code had passed."""
        return Feedback(
            compilation=self.compilation_feedback,
            execution=self.execution_feedback,
            verbal=self.user_feedback,
        )

    @property
    def was_asked(self) -> bool:
        """Whether the model was asked to mend the earlier code: somebody gave feedback, or the compiler alone.

        Upstream asks no expert about code that does not compile in three calls, and a novice says nothing where the tests shown
        are said to pass; the model then had the compiler's message.
        """
        return self.user_feedback is not None or self.compilation_feedback not in (
            None,
            NO_SYNTAX_ERRORS,
        )


class _Result(BaseModel):
    model_config = RAW

    status: Literal["pass", "fail", "timeout"]


class _Results(BaseModel):
    model_config = RAW

    eval: dict[str, list[_Result]]


Row = TypeVar("Row", bound=FirstAnswer)


@dataclass(frozen=True, slots=True)
class Placed(Generic[Row]):
    """A row and its place, for messages that refuse it."""

    place: str
    row: Row


def read_rows(path: Path, kind: type[Row]) -> dict[str, Placed[Row]]:
    """All rows of a log file, by task.

    Raises:
        SourceUnreadable: a line that is no such row, or the second of a task; names file and line.
    """
    rows: dict[str, Placed[Row]] = {}
    for placed in _rows(path, kind):
        first = rows.setdefault(placed.row.task_id, placed)
        if first is not placed:
            raise SourceUnreadable(
                f"{placed.place}: task {placed.row.task_id!r} has a row already ({first.place}). Leave one of them out"
            )
    return rows


def _rows(path: Path, kind: type[Row]) -> Iterator[Placed[Row]]:
    for line in read_lines(path):
        place = f"{path}:{line.number}"
        if isinstance(line, Fault):
            raise SourceUnreadable(f"{place}: {line.reason}: {line.detail}")
        try:
            yield Placed(place, validated(kind, parse_object(line.content)))
        except BadRow as bad:
            raise SourceUnreadable(
                f"{place}: {bad.reason}: {bad.detail}. Fetch the log again, or build it anew"
            ) from None


def read_passed(path: Path) -> dict[str, bool]:
    """Whether each task's code passed all its tests, from the results beside a log.

    Raises:
        SourceUnreadable: no such file, not such results, or several of one task; names the task.
    """
    try:
        results = _Results.model_validate(json.loads(path.read_bytes()))
    except FileNotFoundError:
        raise SourceUnreadable(
            f"{path} is missing: it says which code had passed. Put it beside its log"
        ) from None
    except ValidationError as invalid:
        first = invalid.errors()[0]
        raise SourceUnreadable(
            f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        ) from None
    except (OSError, ValueError, RecursionError) as fault:
        raise SourceUnreadable(f"{path} cannot be read as JSON ({fault}). Fetch it again") from None
    for task, found in results.eval.items():
        if len(found) != 1:
            raise SourceUnreadable(
                f"{path}: task {task!r} has {len(found)} results; a log has one answer of each task"
            )
    return {task: found[0].status == "pass" for task, found in results.eval.items()}
