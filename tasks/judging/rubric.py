"""A rubric is data: what a judge is asked, in which form it answers, and which values that gives."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from schemas.base import Frozen
from schemas.content_id import content_id
from tasks.language.chat_model import Message
from tasks.language.prompt import fill, load_prompt


class Values(Protocol):
    """Reads the values of an answer: dimension -> number, or one of several words."""

    def __call__(self, answer: Any) -> Mapping[str, float | str]: ...


@dataclass(frozen=True)
class Rubric:
    """One thing that is judged.

    Its version, prompt and answer schema stand in the id of every run that uses it, and never in an episode's.
    """

    name: str
    version: str
    """Raise it when the messages or values are made otherwise from the same prompt."""
    prompt: str
    """Text of the prompt file, with its placeholders."""
    answer: type[Frozen]
    """Form of the judge's answer. Its JSON schema is shown to the judge."""
    values: Values
    dimensions: tuple[str, ...] = ("",)
    """Every dimension that a judgement rates. One without a value in an answer is `undefined`."""
    scope: Literal["turn", "dialogue"] = "turn"
    """What one judgement is about: one answer, or the whole dialogue (turn 0)."""
    reads_verdicts: bool = False
    """Whether its prompt shows test verdicts. Such rubrics wait for the tests, the others begin as each dialogue ends."""
    ranges: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )
    """Dimension -> lowest and highest value; the quality checks hold judgements to them."""
    is_reworded: bool = False
    """Whether a user's own words ask for the answer. Its form is then not added, and its fields' names are read in any case."""
    words: tuple[str, ...] = ()
    """The values of a rubric that answers by one of several words."""
    people: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )
    """Further dimensions that people rate and no judge does, with lowest and highest value."""
    tries: int = 3
    """Requests for one judgement at most."""
    drift: Sequence[tuple[Message, ...]] = ()
    """Up to 10 short judgements that each night asks anew: they tell whether the judge still judges alike."""

    def __post_init__(self) -> None:
        if len(self.drift) > MOST_DRIFT_CASES:
            raise ValueError(
                f"rubric {self.name!r} has {len(self.drift)} cases of drift; {MOST_DRIFT_CASES} at most"
            )

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """JSON schema of the answer."""
        return self.answer.model_json_schema()

    @cached_property
    def digest(self) -> str:
        """Digest of prompt and answer schema."""
        return content_id([self.prompt, self.schema])

    @cached_property
    def form(self) -> str:
        """The words that ask for an answer of this form."""
        return fill(
            load_prompt("tasks.judging", "schema"),
            schema=json.dumps(self.schema, sort_keys=True, ensure_ascii=False),
        )

    def asked(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages, with the form of the answer below the last one."""
        if self.is_reworded:
            return messages
        last = messages[-1]
        return (*messages[:-1], Message(last.role, f"{last.content}\n\n{self.form}"))


MOST_DRIFT_CASES = 10


@dataclass(frozen=True)
class JudgeRun:
    """One judgement to be asked for."""

    turn: int
    """1-based round; 0 for the whole dialogue."""
    rubric: str
    messages: tuple[Message, ...]
    """The rendered prompt, without the form of the answer."""
