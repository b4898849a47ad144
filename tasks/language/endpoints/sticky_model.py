"""Model on several servers. Each dialogue stays on one server, which has its history cached."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from schemas.endpoint_profile import EndpointProfile
from schemas.errors import ModelUnavailable
from schemas.run import ModelIdentity
from tasks.language.chat_model import ChatRequest, Completion
from tasks.language.endpoints.openai_model import OpenAIModel

_Dialogue = tuple[str, str, int]


class StickyModel:
    """Model that keeps each dialogue on one server.

    A new dialogue goes to the server with the fewest dialogues. It changes to another server only
    if its server is down.
    """

    def __init__(self, replicas: Sequence[OpenAIModel]) -> None:
        self._replicas = tuple(replicas)
        self._place: dict[_Dialogue, int] = {}
        self._n_dialogues: Counter[int] = Counter()

    @property
    def identity(self) -> ModelIdentity:
        """Return the identity, which is equal on all servers."""
        return self._replicas[0].identity

    @property
    def found_profile(self) -> EndpointProfile:
        """Return the servers' joined profile, as learned from their rejections and answers."""
        first, *others = (replica.found_profile for replica in self._replicas)
        return reduce(EndpointProfile.joined, others, first)

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request on the dialogue's server, or on another one if that is down.

        Raises:
            ModelUnavailable: No server gave a usable answer.
        """
        dialogue = (request.problem_id, request.dialog_id, request.sample)
        tried, n_calls, was_sent = set[int](), 0, False
        while True:
            place = self._choose_replica(dialogue, tried)
            tried.add(place)
            try:
                answer = await self._replicas[place].complete(request, is_repeated=was_sent)
            except ModelUnavailable as error:
                n_calls, was_sent = n_calls + error.n_calls, was_sent or error.was_sent
                if error.permanent or len(tried) == len(self._replicas):
                    error.n_calls, error.was_sent = n_calls, was_sent
                    raise
                continue
            return _with_calls(answer, n_calls)

    def _choose_replica(self, dialogue: _Dialogue, tried: set[int]) -> int:
        current = self._place.get(dialogue)
        if current is not None and current not in tried and not self._is_down(current):
            return current
        left = [place for place in range(len(self._replicas)) if place not in tried]
        up = [place for place in left if not self._is_down(place)]
        if not up and current in left:
            return current
        choice = min(up or left, key=lambda place: (self._n_dialogues[place], place))
        self._place[dialogue] = choice
        self._n_dialogues[choice] += 1
        return choice

    def _is_down(self, place: int) -> bool:
        return self._replicas[place].pool().watch.is_down

    async def aclose(self) -> None:
        """Leave all servers."""
        for replica in self._replicas:
            await replica.aclose()


def _with_calls(answer: Completion, n_before: int) -> Completion:
    return replace(answer, n_calls=answer.n_calls + n_before) if n_before else answer
