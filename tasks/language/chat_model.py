"""Common interface of everything that answers: APIs, local servers, recordings, controls."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from schemas.content_id import canonical_json
from schemas.dialog import Role
from schemas.episode import ToolCall
from schemas.run import ModelIdentity, Sampling


@dataclass(frozen=True, slots=True)
class Message:
    """Message of a prompt, in the form of chat endpoints."""

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    """Tool calls of an assistant's message."""
    call_id: str | None = None
    """Id of the call that a tool's message answers."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """Tool as described to the model: name, purpose and arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments, which are an object."""


UNREADABLE = "unreadable"
"""Tool name that Parley gives to a call without a tool name or with invalid JSON.

No tool has this name, so the model gets an error.
"""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """Request for one answer.

    `problem_id`, `turn` (1-based), `sample` (0-based) and `dialog_id` are not sent.
    """

    messages: tuple[Message, ...]
    sampling: Sampling
    seed: int
    problem_id: str
    turn: int
    sample: int
    dialog_id: str = ""
    """Id of the dialog, if the problem has several dialogs."""
    answer_schema: Mapping[str, Any] | None = None
    """JSON schema that the answer must fit. Sent to endpoints that accept one."""
    rubric: str = ""
    """`BENCHMARK.RUBRIC` of a judgement. Empty for an answer."""
    tools: tuple[ToolSpec, ...] = ()
    """Tools that the answer may call."""
    call_index: int = 0
    """Number of the model's earlier answers in this turn. It is not sent to endpoints."""


CUT_OFF = "cut_off"
"""Finish reason of an empty answer whose tokens ran out during the reasoning."""


@dataclass(frozen=True, slots=True)
class Completion:
    """Answer of a model.

    Tests and later turns see `content`, without reasoning unless Sampling keeps it.

    `finish_reason` is the endpoint's own (`stop`, `length`, `content_filter`), or `context_length`
    if the endpoint rejected the conversation as too long. The content is then empty, which counts
    as the model's failure, not as an infra fault.
    """

    content: str
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_s: float | None = None
    served_model: str | None = None
    n_calls: int = 1
    calls: tuple[ToolCall, ...] = ()
    """Tools that the model calls."""
    reasoning: str = ""
    """Reasoning that the endpoint shows. Tests, later turns, judges and simulators never see it."""
    reasoning_tokens: int | None = None
    """Reasoning tokens, part of `output_tokens`. None if the endpoint did not count them."""
    adapted: tuple[str, ...] = ()
    """Changes to the request after the endpoint rejected its first form, such as `without seed`."""


def prompt_text(messages: tuple[Message, ...]) -> str:
    """Return a whole prompt as one text: canonical JSON of roles and contents."""
    return canonical_json([[message.role.value, message.content] for message in messages])


class ChatModel(Protocol):
    """Model that answers requests. `tasks.language.opening` opens one."""

    @property
    def identity(self) -> ModelIdentity:
        """Return the identity of the model."""
        ...

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request.

        Raises:
            ModelUnavailable: No usable answer after all retries (an infra fault).
            AnswerMissing: A recording does not have this answer.
        """
        ...

    async def aclose(self) -> None:
        """Close connections. The model answers no more requests."""
        ...
