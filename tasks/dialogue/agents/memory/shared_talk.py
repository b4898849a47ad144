"""Memory requests about a conversation that other dialogues share. Each is sent once.

The dialogue that sends a request pays for it and has the answer among its steps. Other dialogues
take the answer from `TalkAnswers` without a step.
"""

from collections.abc import Generator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from schemas.content_id import content_id
from schemas.dialog import Role
from schemas.episode import Step
from schemas.run import Sampling
from tasks.dialogue.agents.contract import TalkAnswers
from tasks.dialogue.agents.memory.contract import Ask, Embed, Thinking, Unit, units_of
from tasks.dialogue.engine import Transcript
from tasks.language.chat_model import Message

OF_TALK = "of_talk"
"""Label of an artifact: the key by which other dialogues find its answer."""


class SharedTalk:
    """Memory requests of one dialogue about the conversation that precedes it.

    Args:
        answers: Store of shared answers. None if nothing is shared.
        sampling: Sampling of the answers. If they are random, each seed has its own memory.
    """

    def __init__(self, answers: TalkAnswers | None, sampling: Sampling) -> None:
        self._answers, self._is_drawn = answers, sampling.temperature != 0
        self._locks, self._is_locked, self._n_turns = AsyncExitStack(), False, 0

    def n_units(self, transcript: Transcript, units: Sequence[Unit]) -> int:
        """Return the number of leading rounds that belong to the shared conversation only."""
        if self._answers is None or transcript.dialog.context_id is None:
            return 0
        messages = [
            Message(turn.role, turn.content or "")
            for turn in transcript.context
            if turn.role is not Role.SYSTEM
        ]
        shared, _ = units_of(messages)
        self._n_turns = len(transcript.context)
        return len(shared) if list(units[: len(shared)]) == shared else 0

    def opening(self, transcript: Transcript) -> Transcript:
        """Return the transcript for a shared request, which is equal for all dialogues."""
        return transcript if self._is_drawn else replace(transcript, seed=0)

    def labels(self, request: Ask, transcript: Transcript) -> tuple[tuple[str, str], ...]:
        """Return the labels of the answer to a request. Empty unless the request is shared."""
        return ((OF_TALK, self._key(request, transcript)),) if request.is_shared else ()

    def fits(self, request: Ask, step: Step, transcript: Transcript) -> bool:
        """Return True if a step of this dialogue has the labels of the answer to the request."""
        return [label for label in step.labels if label[0] == OF_TALK] == list(
            self.labels(request, transcript)
        )

    def keep(self, request: Ask, answer: str, transcript: Transcript) -> None:
        """Store an answer of this dialogue for others. The dialogue's steps already contain it."""
        if self._answers is not None and request.is_shared:
            self._answers.put(self._name(transcript), self._key(request, transcript), answer)

    async def find(self, request: Ask, transcript: Transcript) -> str | None:
        """Return another dialogue's answer, or None if this dialogue must send the request.

        In the second case, other dialogues wait until `leave`.
        """
        if self._answers is None:
            return None
        if not request.is_shared:
            await self.leave(transcript)
            return None
        name, key = self._name(transcript), self._key(request, transcript)
        if self._answers.get(name, key) is None and not self._is_locked:
            await self._locks.enter_async_context(self._answers.building(name))
            self._is_locked = True
        return self._answers.get(name, key)

    async def leave(self, transcript: Transcript) -> None:
        """Release the lock on the conversation after its memory is complete."""
        if self._answers is not None and self._n_turns:
            self._answers.mark_built(self._name(transcript), self._n_turns)
            self._n_turns = 0
        await self.aclose()

    async def aclose(self) -> None:
        """Release the lock on the conversation, even if its memory is incomplete."""
        self._is_locked = False
        await self._locks.aclose()

    def _name(self, transcript: Transcript) -> str:
        return talk_name(
            transcript.dialog.context_id or "", transcript.seed if self._is_drawn else None
        )

    def _key(self, request: Ask, transcript: Transcript) -> str:
        return content_id([request.prompt, transcript.seed if self._is_drawn else None])


def talk_name(context_id: str, seed: int | None) -> str:
    """Return the name of a conversation's memory.

    Args:
        context_id: Id of the conversation.
        seed: Seed of the dialogue if answers are random, else None.
    """
    return context_id if seed is None else f"{context_id} {seed}"


def mark_shared(thinking: Thinking[None]) -> Generator[Ask | Embed, Any, None]:
    """Yield the requests of a memory for a part of the conversation, marked as shared."""
    reply: Any = None
    while True:
        try:
            request = thinking.send(reply)
        except StopIteration:
            return
        reply = yield replace(request, is_shared=True) if isinstance(request, Ask) else request
