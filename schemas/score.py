"""Scores: one metric's value on one turn of one episode. What is missing is None with a reason, never 0."""

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from schemas.base import Frozen


class UnscoredReason(StrEnum):
    INFRA = "infra"
    """Machine or service: the value exists but we could not measure it."""
    NO_ANSWER = "no_answer"
    """The episode has no answer for this turn."""
    NOTHING_TO_FORGET = "nothing_to_forget"
    """No earlier instruction had been passed: the ratio has no denominator."""
    JUDGE_UNPARSABLE = "judge_unparsable"

    @property
    def is_fault(self) -> bool:
        """Whether it counts towards the limit above which a run is withheld."""
        return self is not UnscoredReason.NOTHING_TO_FORGET


class Score(Frozen):
    run_id: str
    benchmark: str
    model: str
    episode_id: str
    problem_id: str
    sample: int = Field(ge=0)
    turn: int = Field(ge=0)
    """1-based round; 0 for a metric of the whole episode."""
    instruction_id: str | None = None
    metric: str
    metric_version: int = Field(ge=1)
    value: float | None = None
    unscored_reason: UnscoredReason | None = None

    @model_validator(mode="after")
    def _value_or_reason(self) -> Self:
        if (self.value is None) == (self.unscored_reason is None):
            raise ValueError("a score has either a value or a reason why it has none")
        return self
