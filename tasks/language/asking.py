"""Repeated requests until a model's answer is readable.

Each retry tells the model what was wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from schemas.errors import ModelUnavailable
from tasks.language.chat_model import ChatModel, ChatRequest, Completion, Message, spent

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
            n_calls = fault.n_calls + spent(answers).n_calls
            raise ModelUnavailable(
                str(fault), permanent=fault.permanent, n_calls=n_calls
            ) from fault
        answers.append(answer)
        try:
            return AskResult(read(answer.content), tuple(answers))
        except Unreadable as unreadable:
            reason = str(unreadable)
        if not answer.content and answer.finish_reason in REFUSED:
            reason = f"it was refused ({answer.finish_reason})"
            break
    return AskResult(None, tuple(answers), reason)
