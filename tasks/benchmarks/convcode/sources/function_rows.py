"""HumanEval, MBPP and MINT's subsets of them: a function, its docstring and asserts."""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import PydanticCustomError

from tasks.benchmarks.convcode.raw_row import RAW, Task, joined
from tasks.benchmarks.convcode.sources.unittest_module import module_of_asserts, module_of_check
from tasks.benchmarks.raw_lines import BadRow, Text, validated

COMPLETE = (
    "Complete the Python function `{entry_point}` so that it does what its docstring says."
    " Answer with self-contained code:"
    " repeat the lines given here, imports and other functions included.\n"
    "```python\n{prompt}\n```\n"
)
WRITE = (
    "Write the Python function that this text asks for; its name and arguments are those of the"
    " statement in it, which must hold."
    " Answer with self-contained code, imports included.\n```python\n{prompt}\n```\n"
)


def _identifier(name: str) -> str:
    if not name.isidentifier():
        raise PydanticCustomError("not_a_name", "not the name of a function")
    return name


class CheckRow(BaseModel):
    """Row in HumanEval's form, which MBXP's MBPP and MINT's HumanEval share."""

    model_config = RAW

    task_id: Text
    prompt: Text
    canonical_solution: Text
    entry_point: Annotated[str, AfterValidator(_identifier)]
    test: Text
    language: str | None = None


class AssertsRow(BaseModel):
    """Row in MBPP's original form, which MINT's MBPP shares. MINT adds a prompt."""

    model_config = RAW

    task_id: int = Field(ge=0)
    text: Text
    code: Text
    test_list: list[Text] = Field(min_length=1)
    test_setup_code: str = ""
    prompt: Text | None = None


def function_task(raw: dict[str, Any]) -> Task:
    """Return a row of either form as a task.

    Raises:
        BadRow: missing_field, wrong_type, blank_text, other_language or bad_tests.
    """
    return (
        _from_asserts(validated(AssertsRow, raw))
        if "test_list" in raw
        else _from_check(validated(CheckRow, raw))
    )


def _from_check(row: CheckRow) -> Task:
    if row.language not in (None, "python"):
        raise BadRow("other_language", f"language: {row.language!r}, but only Python is supported")
    return Task(
        task_id=row.task_id,
        instruct_prompt=COMPLETE.format(entry_point=row.entry_point, prompt=row.prompt.strip("\n")),
        gold=joined(row.prompt, row.canonical_solution),
        test=_module(lambda: module_of_check(row.test, row.entry_point)),
    )


def _from_asserts(row: AssertsRow) -> Task:
    prompt = row.prompt or f'"""\n{row.text}\n{row.test_list[0]}\n"""'
    return Task(
        task_id=f"MBPP/{row.task_id}",
        instruct_prompt=WRITE.format(prompt=prompt.strip("\n")),
        gold=row.code,
        test=_module(lambda: module_of_asserts(row.test_list, row.test_setup_code)),
    )


def _module(write: Callable[[], str]) -> str:
    try:
        return write()
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        raise BadRow(
            "bad_tests",
            f"the tests cannot be converted to a unittest class: {fault or type(fault).__name__}",
        ) from None
