"""The one form of a problem (BigCodeBench-Instruct's), and BigCodeBench's own rows in it."""

import ast
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError

from sandbox.judging.runners.unittest_tests import method_names
from schemas.base import Frozen
from tasks.benchmarks.raw_lines import BadRow, Text, validated

RAW = ConfigDict(strict=True, frozen=True, extra="ignore")
"""Rows of every source are read so: fields that the model does not name are ignored."""


class Task(Frozen):
    """One problem as every source gives it: the fields that can change an episode or a verdict, and nothing else."""

    task_id: str
    instruct_prompt: str
    gold: str
    """The reference program, from its imports on."""
    test: str
    """A module of unittest.TestCase classes, run after the answer's code in the same module."""
    libs: tuple[str, ...] = ()
    """Modules that the task is about, as they are imported."""


def _as_names(libs: Any) -> Any:
    """The published files hold the list as text."""
    if not isinstance(libs, str):
        return libs
    try:
        return ast.literal_eval(libs)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise PydanticCustomError(
            "not_a_list", "neither a list of names nor the text of one"
        ) from None


class BigCodeBenchRow(BaseModel):
    """A row as published (`complete_prompt`, `entry_point` and `doc_struct` are not needed here)."""

    model_config = RAW

    task_id: Text
    instruct_prompt: Text
    code_prompt: Text
    canonical_solution: Text
    test: Text
    libs: Annotated[list[Text], BeforeValidator(_as_names)] = []


COLUMNS = tuple(BigCodeBenchRow.model_fields)


def bigcodebench_task(raw: dict[str, Any]) -> Task:
    """A published row as task.

    Raises:
        BadRow: missing_field, wrong_type or blank_text.
    """
    row = validated(BigCodeBenchRow, raw)
    return Task(
        task_id=row.task_id,
        instruct_prompt=row.instruct_prompt,
        gold=joined(row.code_prompt, row.canonical_solution),
        test=row.test,
        libs=tuple(row.libs),
    )


def joined(head: str, body: str) -> str:
    """A function's head and its body, on lines of their own."""
    return head + body if head.endswith("\n") or body.startswith("\n") else f"{head}\n{body}"


def require_tests(task: Task) -> Task:
    """The task, if its tests can be judged.

    Raises:
        BadRow: bad_tests, where the text is not Python or has no test method.
    """
    try:
        method_names(task.test)
    except (ValueError, MemoryError) as fault:
        raise BadRow("bad_tests", f"test: {fault}") from None
    return task
