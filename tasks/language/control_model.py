"""Controls: the ends of every table. `control:gold` answers with the benchmark's reference code, `control:empty` with nothing."""

from collections.abc import Callable
from dataclasses import dataclass

from schemas.run import ModelIdentity
from tasks.language.chat_model import ChatRequest, Completion


@dataclass(frozen=True)
class ControlModel:
    """Answers from a function, without a network. See `tasks.language.chat_model.ChatModel`."""

    identity: ModelIdentity
    answer: Callable[[str, int], str]
    """(problem id, round from 1) -> answer."""

    async def complete(self, request: ChatRequest) -> Completion:
        return Completion(
            content=self.answer(request.problem_id, request.turn), finish_reason="stop", n_calls=0
        )

    async def aclose(self) -> None:
        pass


def silence(problem_id: str, turn: int) -> str:
    """The answer of `control:empty`."""
    return ""
