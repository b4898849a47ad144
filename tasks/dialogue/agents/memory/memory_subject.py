"""Common parts of agents with a memory.

One round of the conversation is one unit. The model answers a question with the recalled units in
its prompt.

A memory request about a conversation that other dialogues share is sent once. The dialogue that
sends it pays for it and has the answer among its steps. Other dialogues take the answer from
`TalkAnswers` without a step.
"""

from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from schemas.content_id import content_id
from schemas.dialog import HistoryPolicy, Role
from schemas.episode import Step, StepKind
from schemas.errors import ConfigError
from schemas.run import Sampling
from tasks.dialogue.agents.contract import Agent, AgentRequest, MakeSubject, TalkAnswers
from tasks.dialogue.agents.memory.contract import (
    Ask,
    Embed,
    Memory,
    Recalled,
    Thinking,
    Unit,
    units_of,
)
from tasks.dialogue.chat_subject import ChatSubject, messages_of, without_calls
from tasks.dialogue.engine import Stop, Transcript
from tasks.dialogue.tools import observe
from tasks.language.chat_model import Message, message_of
from tasks.language.prompt import PromptTexts, fill

if TYPE_CHECKING:
    from tasks.language.embedding import TextVectors, Vector

PROMPTS = PromptTexts(
    "tasks.dialogue.agents.memory",
    (
        "recalled",
        "hipporag_facts",
        "hipporag_filter",
        "a_mem_note",
        "a_mem_links",
        "memoryos_page",
        "memoryos_profile",
    ),
)
SHORT, FEW, MANY = 10, 3, 10
"""Messages from which a dialogue is long; recalled memories in a short and a long dialogue.

Source: UniDial-EvalKit, section 4.2.
"""
PURPOSE = "asked_for"
"""Label of an artifact: purpose of the request that it answers, such as `note`."""


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


class MemorySubject:
    """Subject that sends its memory's requests one by one, and then the request for the message."""

    def __init__(
        self, chat: ChatSubject, vectors: "TextVectors", memory: Memory, shared: SharedTalk
    ) -> None:
        self._chat, self._vectors, self._memory, self._shared = chat, vectors, memory, shared
        self._units: tuple[Unit, ...] = ()
        """Rounds of the conversation, as the memory received them."""
        self._n_units = 0
        """Number of rounds in the memory."""
        self._round = 0
        """Latest round whose memory requests are complete."""
        self._recalled = Recalled()
        self._thinking: Thinking[Recalled] | None = None
        self._request: Ask | Embed | None = None
        self._n_answers = 0
        """Number of the current round's answers that the memory has received."""

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the answer to the memory's next request, or else the message to the user.

        If an answer calls tools, the model is told that there are none. The errors of
        `ChatSubject.answer` are raised as well.

        Raises:
            ModelUnavailable: The embedder failed.
            ValueError: The stored answers of an earlier round do not match the memory's requests.
        """
        if pending := transcript.pending_calls:
            return await observe((), pending[0], transcript.turn)
        scripted = transcript.dialog.scripted_answers
        while self._round < transcript.turn:
            turn = self._round + 1
            if turn < transcript.turn and turn in scripted:
                self._round = turn  # A scripted round has no requests. The next round adds it.
                continue
            request = await self._advance(_as_of(transcript, turn))
            if request is not None and turn < transcript.turn:
                where = f"round {turn} of {transcript.dialog.dialog_id}"
                raise ValueError(
                    f"{where} has no answer for {request.purpose!r}. Was the agent changed without"
                    " a new version?"
                )
            if request is not None:
                opening = self._shared.opening(transcript) if request.is_shared else transcript
                step = await self._chat.answer(
                    opening, (Message(Role.USER, request.prompt),), StepKind.ARTIFACT
                )
                labels = ((PURPOSE, request.purpose), *self._shared.labels(request, transcript))
                step = without_calls(step, StepKind.ARTIFACT)
                changes = {"labels": labels}
                return step.model_copy(update=changes) if isinstance(step, Step) else step
        return await self._chat.answer(transcript, self._shown(transcript))

    async def _advance(self, transcript: Transcript) -> Ask | None:
        """Replay a round of the memory agent with the answers that are stored.

        Return the first request without an answer, or None at the end of the round.
        """
        answers = [step for step in transcript.turn_steps if step.kind is StepKind.ARTIFACT]
        if self._thinking is None:
            self._thinking, self._n_answers = self._think(transcript), 0
            self._request = None
        try:
            if self._request is None:
                self._request = next(self._thinking)
            while True:
                if isinstance(self._request, Embed):
                    self._request = self._thinking.send(await self._embed(self._request.texts))
                    continue
                step = answers[self._n_answers] if self._n_answers < len(answers) else None
                if step is not None and self._shared.fits(self._request, step, transcript):
                    self._n_answers += 1
                    self._shared.keep(self._request, step.content, transcript)
                    self._request = self._thinking.send(step.content)
                elif (answer := await self._shared.find(self._request, transcript)) is not None:
                    self._request = self._thinking.send(answer)
                else:
                    return self._request
        except StopIteration as done:
            await self._shared.leave(transcript)
            self._recalled, self._thinking = done.value, None
            self._round = transcript.turn
            return None

    def _think(self, transcript: Transcript) -> Thinking[Recalled]:
        units, question = units_of(
            [m for m in self._visible_messages(transcript) if m.role is not Role.SYSTEM]
        )
        n_shared = 0 if self._units else self._shared.n_units(transcript, units)
        for place, unit in enumerate(units):
            new = unit.beyond(self._units[place]) if place < len(self._units) else unit
            if new.text:
                self._n_units += 1
                taking = self._memory.add(replace(new, number=self._n_units))
                yield from mark_shared(taking) if place < n_shared else taking
        self._units = tuple(units)
        if not units:
            return Recalled()
        n_messages = len(transcript.context) + len(transcript.dialog.turns)
        return (yield from self._memory.recall(question, FEW if n_messages < SHORT else MANY))

    def _visible_messages(self, transcript: Transcript) -> tuple[Message, ...]:
        """Return the messages that the history policy shows, without the subject's other steps."""
        return messages_of(replace(transcript, steps=transcript.messages), self._chat.history)

    async def _embed(self, texts: Sequence[str]) -> "Mapping[str, Vector]":
        """Return the vectors of texts.

        A text beyond the embedder's limit is halved until it fits.
        """
        vectors_of: dict[str, Vector] = {}
        shown = {text: text for text in texts if text.strip()}
        while shown:
            vectors = await self._vectors.find(tuple(shown.values()))
            vectors_of |= {text: vectors[cut] for text, cut in shown.items() if cut in vectors}
            halves = {
                text: cut[: len(cut) // 2] for text, cut in shown.items() if cut not in vectors
            }
            shown = {text: half for text, half in halves.items() if half.strip()}
        return vectors_of

    def _shown(self, transcript: Transcript) -> tuple[Message, ...]:
        messages = self._visible_messages(transcript)
        system = tuple(message for message in messages if message.role is Role.SYSTEM)
        _, question = units_of([message for message in messages if message.role is not Role.SYSTEM])
        recent = (
            Message(role, words)
            for unit in self._recalled.recent
            for role, words in ((Role.USER, unit.user), (Role.ASSISTANT, unit.assistant))
            if words
        )
        if self._recalled.memories:
            question = fill(
                PROMPTS["recalled"],
                memories="\n\n".join(self._recalled.memories),
                question=question,
            )
        tool_messages = (
            message_of(step)
            for step in transcript.turn_steps
            if step.kind in (StepKind.TOOL_CALL, StepKind.OBSERVATION)
        )
        return (*system, *recent, Message(Role.USER, question), *tool_messages)


def _as_of(transcript: Transcript, turn: int) -> Transcript:
    """Return the transcript before the answer of a round."""
    steps = (
        step
        for step in transcript.steps
        if step.turn < turn or (step.turn == turn and _is_before_answer(step))
    )
    return replace(transcript, turn=turn, steps=tuple(steps))


def _is_before_answer(step: Step) -> bool:
    return step.role is not Role.ASSISTANT or step.kind is not StepKind.MESSAGE


def memory_agent(
    name: str,
    help: str,
    make: Callable[[], Memory],
    prompts: tuple[str, ...],
    calls_per_context_round: int,
) -> Agent:
    """Return an agent whose memory is empty at first and ends with the dialogue."""

    @asynccontextmanager
    async def begin(request: AgentRequest) -> AsyncIterator[MakeSubject]:
        vectors = request.embedder
        if vectors is None:
            raise ConfigError(
                f"agent {name} needs vectors of texts. Choose an embedder by --embedder SPEC"
            )

        shared = SharedTalk(request.talk_answers, request.sampling)

        def make_subject(history: HistoryPolicy) -> MemorySubject:
            return MemorySubject(
                ChatSubject(request.model, request.sampling, history), vectors, make(), shared
            )

        try:
            yield make_subject
        finally:
            await shared.aclose()

    return Agent(
        name=name,
        version="3",
        help=help,
        begin=begin,
        prompts={prompt: PROMPTS[prompt] for prompt in ("recalled", *prompts)},
        calls_per_turn=3,
        calls_per_context_round=calls_per_context_round,
        needs_embedder=True,
    )
