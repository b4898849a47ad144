"""Tasks without dialogues from HumanEval and ColBench, the input of the build."""

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from schemas.content_id import content_id
from tasks.benchmarks.raw_rows import BadRow, Text, validated
from tasks.benchmarks.talk2code.construction.colbench import NoTask, read_task
from tasks.benchmarks.talk2code.construction.humaneval import (
    UnreadableTests,
    cases,
    number_of,
    python_reference,
)
from tasks.benchmarks.talk2code.raw_row import TaskText

_RAW = ConfigDict(strict=True, frozen=True, extra="ignore")


class Seed(TaskText):
    """Task for which the build writes dialogues."""

    reference: str = ""
    """Reference program; empty if the build must write it."""
    python_reference: str = ""
    """Python program from which the build writes a reference in another language; empty if there is
    none."""


def _expressions(cases: dict[str, str]) -> dict[str, str]:
    if not cases:
        raise ValueError("no test cases")
    return cases


class _HumanEvalRow(BaseModel):
    model_config = _RAW

    task_id: Text
    prompt: Text
    entry_point: Text
    test: Text
    language: str = "python"
    canonical_solution: str | None = None


class _ColBenchRow(BaseModel):
    model_config = _RAW

    problem_description: Text
    ground_truth: Text
    test_cases: Annotated[dict[str, Text], AfterValidator(_expressions), Field(max_length=1000)]


def is_humaneval(raw: dict[str, Any]) -> bool:
    """Return True for a row of HumanEval in any language."""
    return "prompt" in raw and "entry_point" in raw and "test" in raw


def seed_of(raw: dict[str, Any], python_references: dict[int, str]) -> Seed | None:
    """Return the task of a row; None for a row of neither HumanEval nor ColBench.

    Args:
        raw: the row.
        python_references: HumanEval's number -> reference in Python.

    Raises:
        BadRow: missing_field, wrong_type, blank_text, unknown_language or unreadable_tests; for
            ColBench also async_function, class_under_test or listed_tests.
    """
    if is_humaneval(raw):
        return _of_humaneval(validated(_HumanEvalRow, raw), python_references)
    if "ground_truth" in raw and "test_cases" in raw:
        if isinstance(raw["test_cases"], list):
            raise BadRow(
                "listed_tests",
                "test_cases is a list, where ColBench has an object of names and calls",
            )
        return _of_colbench(validated(_ColBenchRow, raw))
    return None


def _of_humaneval(row: _HumanEvalRow, python_references: dict[int, str]) -> Seed:
    reference = (
        python_reference(row.prompt, row.canonical_solution, row.entry_point)
        if row.canonical_solution
        else ""
    )
    number = number_of(row.task_id)
    try:
        tests = cases(row.language, row.test, row.prompt, row.entry_point)
    except UnreadableTests as fault:
        raise BadRow(fault.reason, f"{row.task_id}: {fault}") from None
    return Seed(
        task_id=row.task_id,
        language=row.language,
        source="algorithm",
        problem=row.prompt.strip(),
        entry_point=row.entry_point,
        reference=reference if row.language == "python" else "",
        tests=list(tests),
        python_reference=""
        if row.language == "python" or number is None
        else python_references.get(number, ""),
    )


def _of_colbench(row: _ColBenchRow) -> Seed:
    try:
        task = read_task(row.problem_description, row.ground_truth, tuple(row.test_cases.values()))
    except SyntaxError as fault:
        raise BadRow(
            "unreadable_tests",
            f"ground_truth or a test case is no Python that can be read ({fault.msg})",
        ) from None
    except NoTask as fault:
        raise BadRow(fault.reason, str(fault)) from None
    digest = content_id(json.dumps([row.problem_description, row.ground_truth]))[:12]
    return Seed(
        task_id=f"colbench/{digest}",
        language="python",
        source="backend",
        problem=task.problem,
        entry_point=task.entry_point,
        reference=row.ground_truth.strip() + "\n",
        tests=list(task.cases),
    )


def python_reference_of(raw: dict[str, Any]) -> tuple[int, str] | None:
    """Return (number, reference) of a HumanEval row in Python; None if it has no reference."""
    if not is_humaneval(raw) or raw.get("language", "python") != "python":
        return None
    try:
        row = validated(_HumanEvalRow, raw)
    except BadRow:
        return None
    number = number_of(row.task_id)
    if number is None or not row.canonical_solution:
        return None
    return number, python_reference(row.prompt, row.canonical_solution, row.entry_point)
