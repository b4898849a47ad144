"""One row of the native format: a task with its golden dialogues. README.md describes the fields."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from tasks.benchmarks.raw_lines import Text, validated
from tasks.benchmarks.talk2code.languages import LANGUAGES, delivered, has_code

_RAW = ConfigDict(strict=True, frozen=True, extra="ignore")


def _some(texts: list[str]) -> list[str]:
    if not texts or not all(text.strip() for text in texts):
        raise PydanticCustomError("empty_tests", "no test cases, or a blank one among them")
    return texts


def _known(name: str) -> str:
    if name not in LANGUAGES:
        raise PydanticCustomError(
            "unknown_language", "unknown language; known: {known}", {"known": ", ".join(LANGUAGES)}
        )
    return name


class RawRound(BaseModel):
    """What the user says, and the golden reply."""

    model_config = _RAW

    user: Text
    assistant: Text
    entities: list[str] | None = None
    """Those in the reply, as a person found them."""


class RawDialogue(BaseModel):
    """A golden dialogue with one persona. The last reply holds the code, no other does."""

    model_config = _RAW

    persona: Text
    turns: list[RawRound] = Field(min_length=1)


class TaskText(BaseModel):
    """A task: its statement, its reference and its test cases."""

    model_config = _RAW

    task_id: Text
    language: Annotated[str, AfterValidator(_known)]
    source: Literal["algorithm", "backend"]
    problem: Text
    entry_point: Text
    reference: str
    tests: Annotated[list[str], AfterValidator(_some)]


class RawTask(TaskText):
    """A task with its dialogues."""

    reference: Text
    reference_entities: list[str] | None = None
    dialogues: list[RawDialogue] = Field(min_length=1)


_OWN_REASONS = ("empty_tests", "unknown_language")


def parse_row(raw: dict[str, Any]) -> RawTask:
    """A row as a validated task.

    Raises:
        BadRow: what `validated` says, empty_tests or unknown_language.
    """
    return validated(RawTask, raw, _OWN_REASONS)


def disclosure_fault(task: RawTask, dialogue: RawDialogue) -> str | None:
    """What is wrong with the place of the code in a dialogue; None where only the last reply delivers it."""
    *earlier, last = dialogue.turns
    early = [number for number, turn in enumerate(earlier, 1) if has_code(turn.assistant)]
    if early:
        return f"reply {early[0]} holds code, which belongs into the last one alone"
    if delivered(last.assistant, LANGUAGES[task.language], task.entry_point) is None:
        return f"the last reply has no code block that defines {task.entry_point}"
    return None
