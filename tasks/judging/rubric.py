"""Rubrics as data: prompt, schema of the judge's answer, and the values derived from an answer."""

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
    """Returns the values of an answer: dimension -> number or word."""

    def __call__(self, answer: Any) -> Mapping[str, float | str]: ...


@dataclass(frozen=True)
class Rubric:
    """One quality that judges rate.

    Version, prompt and answer schema are part of the id of each run that uses the rubric. They are
    not part of episode ids.
    """

    name: str
    version: str
    """Version of the rubric. Raise it if an unchanged prompt leads to other messages or values."""
    prompt: str
    """Text of the prompt file, with its placeholders."""
    answer: type[Frozen]
    """Model of the judge's answer. The judge sees its JSON schema."""
    values: Values
    dimensions: tuple[str, ...] = ("",)
    """Dimensions that a judgement rates.

    A dimension without a value in an answer is `undefined`.
    """
    scope: Literal["turn", "dialogue"] = "turn"
    """Subject of one judgement: one answer, or the dialogue as a whole (turn 0)."""
    reads_verdicts: bool = False
    """True if the prompt contains test verdicts.

    Such rubrics wait for the tests. Others start when a dialogue ends.
    """
    ranges: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )
    """Dimension -> lowest and highest value. Quality checks verify them."""
    is_reworded: bool = False
    """True if a user's own prompt describes the answer.

    The schema is then not appended, and field names are read case-insensitively.
    """
    words: tuple[str, ...] = ()
    """Allowed words of a rubric whose values are words."""
    people: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )
    """Additional dimensions that only people rate, with lowest and highest value."""
    tries: int = 3
    """Maximum number of requests for one judgement."""
    drift: Sequence[tuple[Message, ...]] = ()
    """Up to 10 short judgements that each night requests again, to detect changes of the judge."""

    def __post_init__(self) -> None:
        if len(self.drift) > MOST_DRIFT_CASES:
            raise ValueError(
                f"rubric {self.name!r} has {len(self.drift)} drift cases; at most"
                f" {MOST_DRIFT_CASES} are allowed"
            )

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """Return the JSON schema that a judge's answer must fit."""
        return self.answer.model_json_schema()

    @cached_property
    def digest(self) -> str:
        """Return the digest of prompt and answer schema."""
        return content_id([self.prompt, self.schema])

    @cached_property
    def form(self) -> str:
        """Return the text that requests an answer with this schema."""
        return fill(
            load_prompt("tasks.judging", "schema"),
            schema=json.dumps(self.schema, sort_keys=True, ensure_ascii=False),
        )

    def with_form(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages with the answer's schema appended to the last one."""
        if self.is_reworded:
            return messages
        last = messages[-1]
        return (*messages[:-1], Message(last.role, f"{last.content}\n\n{self.form}"))


MOST_DRIFT_CASES = 10


@dataclass(frozen=True)
class JudgeRun:
    """Request for one judgement."""

    turn: int
    """1-based round. 0 for the dialogue as a whole."""
    rubric: str
    messages: tuple[Message, ...]
    """Rendered prompt, without the schema of the answer."""


@dataclass(frozen=True)
class RatingScale:
    """Allowed values of one dimension: a numeric range or a list of words.

    Without either, any value is allowed.
    """

    ends: tuple[float, float] | None = None
    words: tuple[str, ...] = ()

    def fault_of(self, value: float | str) -> str | None:
        """Return why a value is not on the scale, or None if it is."""
        if self.ends is not None and (
            isinstance(value, str) or not self.ends[0] <= value <= self.ends[1]
        ):
            low, high = self.ends
            shown = value if isinstance(value, str) else f"{value:g}"
            return f"value {shown}: the scale goes from {low:g} to {high:g}"
        if self.words and value not in self.words:
            return f"value {value!r}: the scale has {', '.join(self.words)}"
        return None


Scales = Mapping[str, Mapping[str, RatingScale]]
"""Rating scales of a benchmark: rubric -> dimension -> scale."""


def scales_of(rubrics: Mapping[str, Rubric]) -> Scales:
    """Return the scales of people's ratings by these rubrics."""
    return {name: _scales(rubric) for name, rubric in rubrics.items()}


def _scales(rubric: Rubric) -> Mapping[str, RatingScale]:
    own = {name: RatingScale(rubric.ranges.get(name), rubric.words) for name in rubric.dimensions}
    return own | {name: RatingScale(ends) for name, ends in rubric.people.items()}
