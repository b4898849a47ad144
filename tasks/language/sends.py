"""Counts of requests sent to models. `schemas.night.requests.RequestCounts` defines the terms."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from schemas.errors import ModelUnavailable
from schemas.run import ModelIdentity
from tasks.language.chat_model import ChatModel, ChatRequest, Completion


@dataclass(frozen=True, slots=True)
class Send:
    """Sent request that has ended."""

    is_repeated: bool
    """True if the same request had been sent before."""
    is_paid: bool
    """False if the request was rejected."""


OnSend = Callable[[Send], None]


def ignore_send(_: Send) -> None:
    """Do nothing: nobody counts sent requests."""


@dataclass(frozen=True)
class CountedModel:
    """Model of a plug-in. Its sent requests are derived from the number of calls per answer."""

    model: ChatModel
    on_send: OnSend

    @property
    def identity(self) -> ModelIdentity:
        """Return the identity of the model."""
        return self.model.identity

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request. See `ChatModel.complete`."""
        try:
            answer = await self.model.complete(request)
        except ModelUnavailable as error:
            self._count(error.n_calls, is_answered=False)
            raise
        self._count(answer.n_calls, is_answered=True)
        return answer

    def _count(self, n_calls: int, *, is_answered: bool) -> None:
        for number in range(1, n_calls + 1):
            self.on_send(Send(is_repeated=number > 1, is_paid=is_answered and number == n_calls))

    async def aclose(self) -> None:
        """Close the model."""
        await self.model.aclose()


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
    """Sums over several calls. Tokens and seconds are None if they are unknown for a sent call."""

    input_tokens: int | None
    output_tokens: int | None
    latency_s: float | None
    n_calls: int
    reasoning_tokens: int | None = None


def spent(calls: Sequence[Call]) -> Spent:
    """Return the sums over the calls. Without calls: None for tokens and seconds, 0 requests."""
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
