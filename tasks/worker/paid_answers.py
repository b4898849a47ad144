"""Storage of answers before a program runs on them, so that a kill makes no request repeat."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from schemas.content_id import content_id
from schemas.run import ModelIdentity
from tasks.language.chat_model import ChatModel, ChatRequest, Completion


class PaidAnswers:
    """Answers of an episode that are in no stored message yet.

    The answers stay in memory until a program or another request begins, which takes time. Once a
    message that contains them is stored, they are dropped. So a dialogue without programs writes no
    separate answers.

    Args:
        known: (key, answer) pairs that an earlier, killed attempt paid for, in order of request.
        write: Stores answers by their keys.
    """

    def __init__(
        self,
        known: Iterable[tuple[str, Completion]],
        write: Callable[[Mapping[str, Completion]], None],
    ) -> None:
        self._stored: dict[str, deque[Completion]] = defaultdict(deque)
        for key, answer in known:
            self._stored[key].append(answer)
        self._write = write
        self._waiting: list[tuple[str, ChatRequest, Completion]] = []

    def take(self, label: str, request: ChatRequest) -> Completion | None:
        """Return the next stored answer to this request, or None.

        If an episode sends equal requests, each gets the next answer in order.
        """
        if not self._stored:
            return None
        key = answer_key(label, request)
        return self._stored[key].popleft() if self._stored.get(key) else None

    def add(self, label: str, request: ChatRequest, answer: Completion) -> None:
        """Add an answer to store. Answers that no endpoint was asked for are left out."""
        if answer.n_calls:
            self._waiting.append((label, request, answer))

    def keep(self) -> None:
        """Write the answers in memory.

        Raises:
            OSError: The answers could not be written.
        """
        if self._waiting:
            self._write(
                {answer_key(label, request): answer for label, request, answer in self._waiting}
            )
            self.forget()

    def forget(self) -> None:
        """Drop the answers in memory, because a stored message contains them."""
        self._waiting.clear()


@dataclass(frozen=True)
class RememberingModel:
    """Model that reuses the answers of an earlier attempt of an episode. See `ChatModel`."""

    model: ChatModel
    paid: PaidAnswers

    @property
    def identity(self) -> ModelIdentity:
        """Return the identity of the model."""
        return self.model.identity

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer a request. See `ChatModel.complete`."""
        label = self.identity.label
        answer = self.paid.take(label, request)
        if answer is None:
            self.paid.keep()
            answer = await self.model.complete(request)
            self.paid.add(label, request, answer)
        return answer

    async def aclose(self) -> None:
        """Close the model."""
        await self.model.aclose()


def answer_key(label: str, request: ChatRequest) -> str:
    """Return the key of a request within its episode."""
    messages = [[message.role.value, message.content] for message in request.messages]
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
    extras = {name: value for name, value in beyond.items() if value}
    return content_id([label, request.turn, request.seed, messages, *([extras] if extras else [])])
