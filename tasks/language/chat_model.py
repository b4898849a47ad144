"""The one interface to everything that answers: APIs, local servers, recordings, controls."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from schemas.content_id import canonical_json
from schemas.dialog import Role
from schemas.episode import ToolCall
from schemas.run import ModelIdentity, Sampling


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt, as chat endpoints take it."""

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    """On an assistant's message: the tools that it asked for."""
    call_id: str | None = None
    """On a tool's message: the call that it answers."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool, as the model is told of it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments, an object."""


UNREADABLE = "unreadable"
"""Name of the call that stands for one which names no tool or is no JSON. No tool has it, so the model is told."""


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
    answer_schema: Mapping[str, Any] | None = None
    """JSON schema that the answer must fit; sent to endpoints that take one."""
    rubric: str = ""
    """`BENCHMARK.RUBRIC` of a judgement; empty for an answer."""
    tools: tuple[ToolSpec, ...] = ()
    """The answer may call them."""
    call_index: int = 0
    """How many answers the seat has got before in this turn. Endpoints never see it."""


CUT_OFF = "cut_off"
"""Finish reason of an answer whose tokens ran out before its thought was over: it is empty."""


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer. Tests and later turns see `content`, without thoughts unless Sampling keeps them.

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
    calls: tuple[ToolCall, ...] = ()
    """The tools that the model asks for."""
    reasoning: str = ""
    """The model's thoughts, as far as the endpoint shows them. Tests, later turns, judges and simulators never see them."""
    reasoning_tokens: int | None = None
    """Part of `output_tokens`; None where the endpoint did not count them."""
    adapted: tuple[str, ...] = ()
    """How the request differs from what was asked for, since the endpoint refused a part of it: `without seed`."""


def said_in(messages: tuple[Message, ...]) -> str:
    """A whole prompt as one text: canonical JSON of roles and contents."""
    return canonical_json([[message.role.value, message.content] for message in messages])


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
