"""The one interface to everything that answers: APIs, local servers, recordings, controls."""

from dataclasses import dataclass
from typing import Protocol

from schemas.dialog import Role
from schemas.run import ModelIdentity, Sampling


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One call for one answer. Endpoints never see `problem_id`, `turn` (1-based), `sample` (from 0) and `dialog_id`."""

    messages: tuple[Message, ...]
    sampling: Sampling
    seed: int
    problem_id: str
    turn: int
    sample: int
    dialog_id: str = ""
    """Names one of several dialogs of the problem."""


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer. Tests and later turns see `content` (without a reasoning block where Sampling says so).

    `finish_reason` is the endpoint's own (`stop`, `length`, `content_filter`), or `context_length` where the endpoint refused the
    conversation as too long. The content is then empty, which is the model's failure, not infra.
    """

    content: str
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_s: float | None = None
    served_model: str | None = None
    n_calls: int = 1


class ChatModel(Protocol):
    """Answers requests; opened by `tasks.language.opening`."""

    @property
    def identity(self) -> ModelIdentity:
        """Who answers."""
        ...

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request.

        Raises:
            ModelUnavailable: no usable answer after all retries (infra).
            AnswerMissing: there is no such answer (a recording without it).
        """
        ...

    async def aclose(self) -> None:
        """Give up connections; the model answers no more."""
        ...
