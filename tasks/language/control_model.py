"""Controls, the bounds of every table.

`control:gold` answers with the benchmark's reference code, `control:empty` with nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from schemas.run import ModelIdentity
from tasks.language.chat_model import ChatRequest, Completion


@dataclass(frozen=True)
class ControlModel:
    """Model that answers from a function, without a network. See `ChatModel`."""

    identity: ModelIdentity
    answer: Callable[[str, int], str]
    """Returns the answer for (problem id, 1-based round)."""

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request. See `ChatModel.complete`."""
        return Completion(
            content=self.answer(request.problem_id, request.turn), finish_reason="stop", n_calls=0
        )

    async def aclose(self) -> None:
        """Do nothing, since there is nothing to close."""


def silence(problem_id: str, turn: int) -> str:
    """Return the answer of `control:empty`."""
    return ""
