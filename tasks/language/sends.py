"""Counted sends of requests to models. `schemas.night.requests.RequestCounts` defines the terms."""

from collections.abc import Callable
from dataclasses import dataclass

from schemas.errors import ModelUnavailable
from schemas.run import ModelIdentity
from tasks.language.chat_model import ChatModel, ChatRequest, Completion


@dataclass(frozen=True, slots=True)
class Send:
    """One sent request, once it has ended."""

    is_repeated: bool
    """False for the first send of a request."""
    is_paid: bool
    """False if the request was rejected."""


OnSend = Callable[[Send], None]


def ignore_send(_: Send) -> None:
    """Count nothing."""


@dataclass(frozen=True)
class CountedModel:
    """Model of a plug-in, whose sends are derived from the number of requests of each answer."""

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
