"""Asks a model again until its answer can be read, and says each time what was wrong with it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from schemas.errors import ModelUnavailable
from tasks.language.chat_model import ChatModel, ChatRequest, Completion, Message
from tasks.language.spent import spent

T = TypeVar("T")
Messages = tuple[Message, ...]

REFUSED = ("context_length", "content_filter")
"""Finish reasons of an empty answer that another request would not change."""


class Unreadable(ValueError):
    """An answer does not have the form that was asked for. The message says why, in words that a model is shown."""


@dataclass(frozen=True, slots=True)
class Asked(Generic[T]):
    """The value that was read, or the reason why there is none; and all answers, the last one last."""

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
) -> Asked[T]:
    """Ask, read, and ask again where the answer is unreadable. Each request has a seed of its own, the first the request's.

    Args:
        again: (answer, what is wrong with it) -> the messages of the next request.
        read: makes the value of an answer, or raises Unreadable.
        tries: requests at most, 1 or more. An answer that was refused ends it early.

    Raises:
        ModelUnavailable: no answer after all retries; `n_calls` counts the requests of all tries.
        AnswerMissing: a recording without this answer.
    """
    answers: list[Completion] = []
    reason = ""
    while len(answers) < tries:
        messages = again(answers[-1].content, reason) if answers else request.messages
        asked = replace(request, messages=messages, seed=request.seed + len(answers))
        try:
            answer = await model.complete(asked)
        except ModelUnavailable as fault:
            n_calls = fault.n_calls + spent(answers).n_calls
            raise ModelUnavailable(
                str(fault), permanent=fault.permanent, n_calls=n_calls
            ) from fault
        answers.append(answer)
        try:
            return Asked(read(answer.content), tuple(answers))
        except Unreadable as unreadable:
            reason = str(unreadable)
        if not answer.content and answer.finish_reason in REFUSED:
            reason = f"it was refused ({answer.finish_reason})"
            break
    return Asked(None, tuple(answers), reason)
