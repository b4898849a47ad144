"""Common interface of everything that answers: APIs, local servers, recordings, controls.

`schemas.night.work.RequestCounts` defines the terms by which sent requests are counted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from schemas.content_id import canonical_json
from schemas.dialog import Role
from schemas.episode import Step, ToolCall
from schemas.errors import AnswerMissing, ModelUnavailable
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
    reasoning: str = ""
    """Thoughts before an assistant's message. Sent only with tools, to endpoints that demand it."""


def message_of(step: Step) -> Message:
    """Return a step of a dialogue as a message of a later prompt."""
    return Message(step.role, step.content, step.calls, step.call_id, step.reasoning or "")


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
    as the model's failure, not as an infra fault. An answer that is an HTTP error has 0 tokens, as
    nothing was generated.
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


@dataclass(frozen=True)
class WrappedModel:
    """Model whose answers come from another model. A subclass defines `ChatModel.complete`."""

    model: ChatModel

    @property
    def identity(self) -> ModelIdentity:
        """Return the identity of the model."""
        return self.model.identity

    async def aclose(self) -> None:
        """Close the model."""
        await self.model.aclose()


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
class CountedModel(WrappedModel):
    """Model of a plug-in. Its sent requests are derived from the number of calls per answer."""

    on_send: OnSend

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


Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Spent:
    """Sums over several calls, in the fields of `Step`.

    Tokens and seconds are None if they are unknown for a sent call.
    """

    input_tokens: int | None
    output_tokens: int | None
    latency_s: float | None
    n_calls: int
    reasoning_tokens: int | None = None


def spent(calls: Sequence[Step | Completion]) -> Spent:
    """Return the sums over the calls. Without calls: None for tokens and seconds, 0 requests."""
    return Spent(
        input_tokens=_sum(call.input_tokens for call in calls),
        output_tokens=_sum(call.output_tokens for call in calls),
        latency_s=_sum(call.latency_s for call in calls),
        n_calls=sum(call.n_calls for call in calls),
        reasoning_tokens=_sum(call.reasoning_tokens for call in calls),
    )


def with_earlier_calls(
    fault: ModelUnavailable, calls: Sequence[Step | Completion]
) -> ModelUnavailable:
    """Return the fault of a series of requests, whose `n_calls` includes the earlier calls."""
    n_calls = fault.n_calls + spent(calls).n_calls
    return ModelUnavailable(str(fault), permanent=fault.permanent, n_calls=n_calls)


def _sum(values: Iterable[Number | None]) -> Number | None:
    total: Number | None = None
    for value in values:
        if value is None:
            return None
        total = value if total is None else total + value
    return total


T = TypeVar("T")
Messages = tuple[Message, ...]

REFUSED = ("context_length", "content_filter")
"""Finish reasons of an empty answer that another request would not change."""


class Unreadable(ValueError):
    """Error for an answer without the requested form.

    The message gives the reason in words for the model.
    """


@dataclass(frozen=True, slots=True)
class AskResult(Generic[T]):
    """Value that was read, or the reason why there is none, and all answers in order."""

    value: T | None
    answers: tuple[Completion, ...]
    reason: str = ""

    @property
    def cost(self) -> dict[str, Any]:
        """Return the fields of `Step` about the requests: sums over all, and facts of the last."""
        last = self.answers[-1]
        return asdict(spent(self.answers)) | {
            "finish_reason": last.finish_reason,
            "served_model": last.served_model,
            "adapted": last.adapted,
        }


_SHOWN_AGAIN = 2000
"""Maximum characters of an unusable answer to show again.

An endless answer would fill the context.
"""


def with_follow_up(messages: Messages, answer: str, text: str) -> Messages:
    """Return the messages, the start of an unusable answer to them, and another request."""
    return (
        *messages,
        Message(Role.ASSISTANT, answer[:_SHOWN_AGAIN] or "-"),
        Message(Role.USER, text),
    )


async def ask_until_read(
    model: ChatModel,
    request: ChatRequest,
    again: Callable[[str, str], Messages],
    read: Callable[[str], T],
    *,
    tries: int,
) -> AskResult[T]:
    """Request an answer, and request it again while it is unreadable.

    The first try has the seed of `request`. Each further try has another seed.

    Args:
        model: Model to answer.
        request: First request.
        again: Returns the messages of the next request from (answer, what is wrong with it).
        read: Returns the value of an answer, or raises Unreadable.
        tries: Maximum number of requests, 1 or more. A refused answer ends the loop early.

    Raises:
        ModelUnavailable: No answer after all retries. `n_calls` counts the requests of all tries.
        AnswerMissing: A recording does not have this answer.
    """
    answers: list[Completion] = []
    reason = ""
    while len(answers) < tries:
        messages = again(answers[-1].content, reason) if answers else request.messages
        attempt = replace(request, messages=messages, seed=request.seed + len(answers))
        try:
            answer = await model.complete(attempt)
        except ModelUnavailable as fault:
            raise with_earlier_calls(fault, answers) from fault
        answers.append(answer)
        try:
            return AskResult(read(answer.content), tuple(answers))
        except Unreadable as unreadable:
            reason = str(unreadable)
        if not answer.content and answer.finish_reason in REFUSED:
            reason = f"it was refused ({answer.finish_reason})"
            break
    return AskResult(None, tuple(answers), reason)


async def ask_simulator(
    model: ChatModel,
    request: ChatRequest,
    again: Callable[[str, str], Messages],
    read: Callable[[str], T],
    *,
    tries: int,
) -> AskResult[T]:
    """Request an answer of a simulated user. See `ask_until_read`.

    Raises:
        ModelUnavailable: No answer, also if a recording does not have it. The subject is not to
            blame.
    """
    try:
        return await ask_until_read(model, request, again, read, tries=tries)
    except AnswerMissing as missing:
        raise ModelUnavailable(f"simulator: {missing}", permanent=True) from missing
