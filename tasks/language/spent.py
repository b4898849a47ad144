"""Summed cost of several calls for one message."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T", int, float)


class Call(Protocol):
    """Cost fields that a step and a completion share."""

    @property
    def input_tokens(self) -> int | None:
        """Return the tokens of the request, or None if the endpoint did not count them."""
        ...

    @property
    def output_tokens(self) -> int | None:
        """Return the tokens of the answer, or None if the endpoint did not count them."""
        ...

    @property
    def latency_s(self) -> float | None:
        """Return the seconds from request to answer, or None if no request was sent."""
        ...

    @property
    def reasoning_tokens(self) -> int | None:
        """Return the reasoning tokens of the answer, or None if the endpoint did not count them."""
        ...

    @property
    def n_calls(self) -> int:
        """Return the number of sent requests, 0 or more."""
        ...


@dataclass(frozen=True, slots=True)
class Spent:
    """Sums over all calls. Tokens and seconds are None if they are unknown for a sent call."""

    input_tokens: int | None
    output_tokens: int | None
    latency_s: float | None
    n_calls: int
    reasoning_tokens: int | None = None


def spent(calls: Sequence[Call]) -> Spent:
    """Return the sums. Without calls: None for tokens and seconds, 0 requests."""
    return Spent(
        input_tokens=_sum(call.input_tokens for call in calls),
        output_tokens=_sum(call.output_tokens for call in calls),
        latency_s=_sum(call.latency_s for call in calls),
        n_calls=sum(call.n_calls for call in calls),
        reasoning_tokens=_sum(call.reasoning_tokens for call in calls),
    )


def _sum(values: Iterable[T | None]) -> T | None:
    total: T | None = None
    for value in values:
        if value is None:
            return None
        total = value if total is None else total + value
    return total
