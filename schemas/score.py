"""Scores: one metric's value on one turn of one episode.

A missing value is None with a reason, never 0.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from schemas.base import EpisodeRow
from schemas.episode import Episode, StopReason


class UnscoredReason(StrEnum):
    """Reasons why a score has no value.

    `is_fault` separates faults from definitions and gaps in the data.
    """

    INFRA = "infra"
    """A machine or service failed: the value exists, but could not be measured."""
    NO_ANSWER = "no_answer"
    """The episode has no answer for this turn."""
    NOTHING_TO_FORGET = "nothing_to_forget"
    """No earlier instruction had passed, so the ratio has no denominator."""
    UNDEFINED = "undefined"
    """The metric is not defined here."""
    SOURCE_MISSING = "source_missing"
    """The dataset lacks the value that the metric compares with, or a tree of files that the tests
    need."""
    ENVIRONMENT_MISSING = "environment_missing"
    """The tree's own tests fail in the sandbox before any answer is added: packages are missing, or
    do not fit."""
    CONTEXT_LENGTH = "context_length"
    """The dialogue is longer than the model's context."""
    TOOLCHAIN_MISSING = "toolchain_missing"
    """The sandbox has no compiler or runtime for the answer's language."""
    NETWORK_MISSING = "network_missing"
    """The tests need public web pages, which no sandbox has."""
    REFUSED = "refused"
    """The endpoint or the model refused to answer the prompt."""
    JUDGE_UNPARSABLE = "judge_unparsable"
    """No answer of the judge could be parsed."""
    JUDGE_SILENT = "judge_silent"
    """The judge gave no answer: its recording lacks one, or it refused."""

    @property
    def is_fault(self) -> bool:
        """True if the score counts towards the limit above which a run is withheld."""
        return self not in _NO_FAULTS


_NO_FAULTS = frozenset(
    {
        UnscoredReason.NOTHING_TO_FORGET,
        UnscoredReason.UNDEFINED,
        UnscoredReason.SOURCE_MISSING,
        UnscoredReason.ENVIRONMENT_MISSING,
        UnscoredReason.CONTEXT_LENGTH,
        UnscoredReason.TOOLCHAIN_MISSING,
        UnscoredReason.NETWORK_MISSING,
        UnscoredReason.REFUSED,
    }
)


def reason_of(episode: Episode, turn: int) -> UnscoredReason:
    """Return the reason why a round's answer has no verdict.

    An answer without a verdict is a fault of the infrastructure, and so is an answer that a fault
    prevented. A conversation longer than the model's context, a refused prompt and a missing source
    are no faults.
    """
    if episode.stop_reason is StopReason.NOT_ASKED:
        return UnscoredReason.SOURCE_MISSING
    if episode.stop_reason is StopReason.ENVIRONMENT_MISSING:
        return UnscoredReason.ENVIRONMENT_MISSING
    if episode.answer(turn) is not None or episode.stop_reason is StopReason.INFRA:
        return UnscoredReason.INFRA
    if episode.stop_reason is StopReason.REFUSED:
        return UnscoredReason.REFUSED
    return UnscoredReason.CONTEXT_LENGTH if episode.is_too_long else UnscoredReason.NO_ANSWER


def worst_of(reasons: Collection[object]) -> UnscoredReason | None:
    """Return the first of `reasons` in the order of `UnscoredReason`; None if there are none.

    Faults come first in that order.
    """
    return next((reason for reason in UnscoredReason if reason in reasons), None)


class Score(EpisodeRow):
    """One metric's value on one turn of one episode, or the reason why it has none.

    Exactly one of both is set.
    """

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
