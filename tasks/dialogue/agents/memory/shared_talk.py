"""What a memory asks about a talk that other dialogues have before them, too: each answer is asked for once.

The dialogue that asks first has the answer among its steps, and pays for it. The others take it from `TalkAnswers`, and have no
step of it.
"""

from collections.abc import Generator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from schemas.content_id import content_id
from schemas.dialog import Role
from schemas.episode import Step
from schemas.run import Sampling
from tasks.dialogue.agents.contract import TalkAnswers
from tasks.dialogue.transcript import Transcript
from tasks.language.chat_model import Message

if TYPE_CHECKING:
    from tasks.dialogue.agents.memory.remembering import Ask, Embed, Thinking, Unit

OF_TALK = "of_talk"
"""Label of an artifact: the key under which other dialogues find it."""


class SharedTalk:
    """The talk before one dialogue.

    Args:
        answers: None where nothing is shared.
        sampling: where answers are drawn, each seed has a memory of its own.
    """

    def __init__(self, answers: TalkAnswers | None, sampling: Sampling) -> None:
        self._answers, self._is_drawn = answers, sampling.temperature != 0
        self._held, self._is_held, self._n_turns = AsyncExitStack(), False, 0

    def n_units(self, transcript: Transcript, units: "Sequence[Unit]") -> int:
        """Return how many units, from the first one, are of the talk alone."""
        from tasks.dialogue.agents.memory.remembering import units_of

        if self._answers is None or transcript.dialog.context_id is None:
            return 0
        said = [
            Message(turn.role, turn.content or "")
            for turn in transcript.context
            if turn.role is not Role.SYSTEM
        ]
        shared, _ = units_of(said)
        self._n_turns = len(transcript.context)
        return len(shared) if list(units[: len(shared)]) == shared else 0

    def opening(self, transcript: Transcript) -> Transcript:
        """Return the transcript that an answer is asked for: whichever dialogue asks gets the same."""
        return transcript if self._is_drawn else replace(transcript, seed=0)

    def labels(self, wanted: "Ask", transcript: Transcript) -> tuple[tuple[str, str], ...]:
        """Return the labels of an answer."""
        return ((OF_TALK, self._key(wanted, transcript)),) if wanted.is_shared else ()

    def fits(self, wanted: "Ask", own: Step, transcript: Transcript) -> bool:
        """Return whether a step of this dialogue is the answer."""
        return [label for label in own.labels if label[0] == OF_TALK] == list(
            self.labels(wanted, transcript)
        )

    def keep(self, wanted: "Ask", answer: str, transcript: Transcript) -> None:
        """Keep an answer that this dialogue paid for. It is among the dialogue's steps by now."""
        if self._answers is not None and wanted.is_shared:
            self._answers.put(self._name(transcript), self._key(wanted, transcript), answer)

    async def find(self, wanted: "Ask", transcript: Transcript) -> str | None:
        """Return an answer that another dialogue paid for; None where this one has to ask, and nobody else may meanwhile."""
        if self._answers is None:
            return None
        if not wanted.is_shared:
            await self.leave(transcript)
            return None
        talk, key = self._name(transcript), self._key(wanted, transcript)
        if self._answers.get(talk, key) is None and not self._is_held:
            await self._held.enter_async_context(self._answers.building(talk))
            self._is_held = True
        return self._answers.get(talk, key)

    async def leave(self, transcript: Transcript) -> None:
        """Let others ask about the talk: its memory is built."""
        if self._answers is not None and self._n_turns:
            self._answers.mark_built(self._name(transcript), self._n_turns)
            self._n_turns = 0
        await self.aclose()

    async def aclose(self) -> None:
        """Let others ask about the talk, built or not."""
        self._is_held = False
        await self._held.aclose()

    def _name(self, transcript: Transcript) -> str:
        return talk_name(
            transcript.dialog.context_id or "", transcript.seed if self._is_drawn else None
        )

    def _key(self, wanted: "Ask", transcript: Transcript) -> str:
        return content_id([wanted.prompt, transcript.seed if self._is_drawn else None])


def talk_name(context_id: str, seed: int | None) -> str:
    """Return the name of a talk's memory.

    Args:
        seed: where answers are drawn.
    """
    return context_id if seed is None else f"{context_id} {seed}"


def shared(thinking: "Thinking[None]") -> "Generator[Ask | Embed, Any, None]":
    """Yield what a memory wants while it takes in a part of the talk."""
    from tasks.dialogue.agents.memory.remembering import Ask

    told: Any = None
    while True:
        try:
            wanted = thinking.send(told)
        except StopIteration:
            return
        told = yield replace(wanted, is_shared=True) if isinstance(wanted, Ask) else wanted
