"""Keeps answers that are in no message yet before a program runs on them, so that a kill meanwhile has none paid for twice."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from schemas.content_id import content_id
from schemas.run import ModelIdentity
from tasks.language.chat_model import ChatModel, ChatRequest, Completion


class PaidAnswers:
    """An episode's answers that are in no message yet.

    They wait in memory until a program or another request begins, which takes its time. The message that holds them makes them
    forgotten: a dialogue that runs no programs writes none.

    Args:
        known: (key, answer) of the answers that an earlier, killed attempt has paid for, in the order of asking.
        write: keeps answers by their keys.
    """

    def __init__(
        self,
        known: Iterable[tuple[str, Completion]],
        write: Callable[[Mapping[str, Completion]], None],
    ) -> None:
        self._known: dict[str, deque[Completion]] = defaultdict(deque)
        for key, answer in known:
            self._known[key].append(answer)
        self._write = write
        self._waiting: list[tuple[str, ChatRequest, Completion]] = []

    def take(self, label: str, request: ChatRequest) -> Completion | None:
        """The next kept answer to this request, if one is left. Asking the same again takes another one."""
        if not self._known:
            return None
        key = answer_key(label, request)
        return self._known[key].popleft() if self._known.get(key) else None

    def add(self, label: str, request: ChatRequest, answer: Completion) -> None:
        """Note an answer to be kept. An answer that sent no request costs nothing and is left out."""
        if answer.n_calls:
            self._waiting.append((label, request, answer))

    def keep(self) -> None:
        """Write the waiting answers.

        Raises:
            OSError: it could not be written.
        """
        if self._waiting:
            self._write(
                {answer_key(label, request): answer for label, request, answer in self._waiting}
            )
            self.forget()

    def forget(self) -> None:
        """Drop the waiting answers: a kept message holds them now."""
        self._waiting.clear()


@dataclass(frozen=True)
class RememberingModel:
    """A model that is not asked again for answers of an earlier attempt. See `tasks.language.chat_model.ChatModel`."""

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
    beyond = {
        "call_index": request.call_index,
        "tools": [[tool.name, tool.description, dict(tool.parameters)] for tool in request.tools],
        "calls": [
            [n, message.calls] for n, message in enumerate(request.messages) if message.calls
        ],
        "call_ids": [
            [n, message.call_id] for n, message in enumerate(request.messages) if message.call_id
        ],
        "answer_schema": request.answer_schema,
    }
    kept = {name: value for name, value in beyond.items() if value}
    return content_id([label, request.turn, request.seed, said, *([kept] if kept else [])])
