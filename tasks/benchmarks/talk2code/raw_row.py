"""Row of the native format: a task with its golden dialogues. README.md describes the fields."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from tasks.benchmarks.raw_rows import RawModel, Text
from tasks.benchmarks.talk2code.languages import LANGUAGES, delivered_program, has_code


def _check_tests(texts: list[str]) -> list[str]:
    if not texts or not all(text.strip() for text in texts):
        raise PydanticCustomError("empty_tests", "no test cases, or a blank one among them")
    return texts


def _check_language(name: str) -> str:
    if name not in LANGUAGES:
        raise PydanticCustomError(
            "unknown_language", "unknown language; known: {known}", {"known": ", ".join(LANGUAGES)}
        )
    return name


class RawRound(RawModel):
    """Message of the user, and the golden reply."""

    user: Text
    assistant: Text
    entities: list[str] | None = None
    """Entities that a person noted in the reply; None without notes."""


class RawDialogue(RawModel):
    """Golden dialogue with one persona. Only the last reply contains code."""

    persona: Text
    turns: list[RawRound] = Field(min_length=1)


class TaskText(RawModel):
    """Task: statement, reference and test cases."""

    task_id: Text
    language: Annotated[str, AfterValidator(_check_language)]
    source: Literal["algorithm", "backend"]
    problem: Text
    entry_point: Text
    reference: str
    tests: Annotated[list[str], AfterValidator(_check_tests)]


class RawTask(TaskText):
    """Task with its golden dialogues."""

    reference: Text
    reference_entities: list[str] | None = None
    dialogues: list[RawDialogue] = Field(min_length=1)


OWN_REASONS = ("empty_tests", "unknown_language")
"""Reasons of quarantine for native rows, besides those of all benchmarks."""


def disclosure_fault(task: RawTask, dialogue: RawDialogue) -> str | None:
    """Return the fault if any reply but the last one delivers code, or the last one does not."""
    *earlier, last = dialogue.turns
    early = [number for number, turn in enumerate(earlier, 1) if has_code(turn.assistant)]
    if early:
        return f"reply {early[0]} holds code, which belongs into the last one alone"
    if delivered_program(last.assistant, LANGUAGES[task.language], task.entry_point) is None:
        return f"the last reply has no code block that defines {task.entry_point}"
    return None
