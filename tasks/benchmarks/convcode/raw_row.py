"""Common form of a problem (BigCodeBench-Instruct) and conversion of BigCodeBench rows."""

import ast
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from sandbox.judging.runners.python_tests import method_names
from schemas.base import Frozen
from tasks.benchmarks.raw_rows import BadRow, RawModel, Text, validated


class Task(Frozen):
    """Problem in the common form, with only those fields that affect episodes or verdicts."""

    task_id: str
    instruct_prompt: str
    gold: str
    """Reference program, including its imports."""
    test: str
    """Module of unittest.TestCase classes that runs after the answer's code in the same module."""
    libs: tuple[str, ...] = ()
    """Import names of the modules that the task uses."""


def _as_names(libs: Any) -> Any:
    """Parse a list of names, which the published files store as text."""
    if not isinstance(libs, str):
        return libs
    try:
        return ast.literal_eval(libs)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise PydanticCustomError(
            "not_a_list", "neither a list of names nor the text of one"
        ) from None


class BigCodeBenchRow(RawModel):
    """Row as published, without `complete_prompt`, `entry_point` and `doc_struct`."""

    task_id: Text
    instruct_prompt: Text
    code_prompt: Text
    canonical_solution: Text
    test: Text
    libs: Annotated[list[Text], BeforeValidator(_as_names)] = Field(default_factory=list)


COLUMNS = tuple(BigCodeBenchRow.model_fields)


def bigcodebench_task(raw: dict[str, Any]) -> Task:
    """Return a published row as a task.

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
    """Return a function's head and body on separate lines."""
    return head + body if head.endswith("\n") or body.startswith("\n") else f"{head}\n{body}"


def require_tests(task: Task) -> Task:
    """Return the task if its tests can be run.

    Raises:
        BadRow: bad_tests, if the text is not Python or has no test method.
    """
    try:
        method_names(task.test)
    except (ValueError, MemoryError) as fault:
        raise BadRow("bad_tests", f"test: {fault}") from None
    return task
