"""Answers that are in no message yet, kept before a program is run on them: a kill meanwhile has none of them paid for twice."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from schemas.content_id import content_id
from schemas.run import ModelIdentity
from tasks.language.chat_model import ChatModel, ChatRequest, Completion


class PaidAnswers:
    """An episode's answers that are in no message yet.

    They wait in memory until something that takes its time is begun (a program, another request), and are forgotten with the
    message that holds them: a dialogue that runs no programs writes none.

    Args:
        known: (key, answer) of what an earlier attempt, which was killed, has paid for, in the order of asking.
        write: keeps answers by their keys.
    """

    def __init__(self, known: Iterable[tuple[str, Completion]], write: Callable[[Mapping[str, Completion]], None]) -> None:
        self._known: dict[str, deque[Completion]] = defaultdict(deque)
        for key, answer in known:
            self._known[key].append(answer)
        self._write = write
        self._waiting: list[tuple[str, ChatRequest, Completion]] = []

    def take(self, label: str, request: ChatRequest) -> Completion | None:
        """The next answer to that request, if there is one left: who asks the same again wants another."""
        if not self._known:
            return None
        key = answer_key(label, request)
        return self._known[key].popleft() if self._known.get(key) else None

    def add(self, label: str, request: ChatRequest, answer: Completion) -> None:
        """Note an answer to be kept. An answer that sent no request costs nothing and is left out."""
        if answer.n_calls:
            self._waiting.append((label, request, answer))

    def keep(self) -> None:
        """Write what waits.

        Raises:
            OSError: it could not be written.
        """
        if self._waiting:
            self._write({answer_key(label, request): answer for label, request, answer in self._waiting})
            self.forget()

    def forget(self) -> None:
        """A message was kept that holds what waits."""
        self._waiting.clear()


@dataclass(frozen=True)
class RememberingModel:
    """A model that is not asked for what an earlier attempt was answered."""

    model: ChatModel
    paid: PaidAnswers

    @property
    def identity(self) -> ModelIdentity:
        return self.model.identity

    async def complete(self, request: ChatRequest) -> Completion:
        """See `ChatModel.complete`."""
        label = self.identity.label
        answer = self.paid.take(label, request)
        if answer is None:
            self.paid.keep()
            answer = await self.model.complete(request)
            self.paid.add(label, request, answer)
        return answer

    async def aclose(self) -> None:
        await self.model.aclose()


def answer_key(label: str, request: ChatRequest) -> str:
    """Names a request within its episode."""
    said = [[message.role.value, message.content] for message in request.messages]
    return content_id([label, request.turn, request.seed, said])
