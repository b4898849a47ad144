"""What agents with a memory share: a round of the talk is one unit, and the model is asked with what is recalled for a question.

A memory is a generator that yields what it wants: an answer of the model (`Ask`) or vectors (`Embed`). Each answer is an artifact
of the turn in which it was asked for, so it is journaled before the next. The state is what the generators make of these answers:
after a kill they are run again over the kept ones, and nothing is asked twice.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from schemas.dialog import HistoryPolicy, Role
from schemas.episode import Step, StepKind
from schemas.errors import ConfigError
from tasks.dialogue.agents.contract import AgentRequest, BeginDialogue, MakeSeat
from tasks.dialogue.chat_subject import ChatSubject, messages_of
from tasks.dialogue.seats import Stop
from tasks.dialogue.transcript import Transcript
from tasks.language.chat_model import Message
from tasks.language.prompt import PromptTexts, fill

if TYPE_CHECKING:
    from tasks.language.embedding import TextVectors, Vector

PROMPTS = PromptTexts(
    "tasks.dialogue.agents.memory",
    ("recalled", "hipporag_facts", "hipporag_question", "a_mem_note", "a_mem_links", "memoryos_page", "memoryos_profile"),
)
SHORT, FEW, MANY = 10, 3, 10
"""Messages from which a dialogue is long; memories recalled in a short and in a long one (UniDial-EvalKit section 4.2)."""
PURPOSE = "asked_for"
"""Label of an artifact: what its text is for."""
T = TypeVar("T")


@dataclass(frozen=True)
class Ask:
    """The model's answer is wanted. It becomes a step of the turn."""

    purpose: str
    prompt: str


@dataclass(frozen=True)
class Embed:
    """Vectors are wanted: text -> vector of length 1. Blank texts have none."""

    texts: tuple[str, ...]


Thinking = Generator[Ask | Embed, Any, T]


@dataclass(frozen=True)
class Unit:
    """One round of the talk: what the user said, and the answer as it is shown to the model."""

    number: int
    """From 1."""
    user: str
    assistant: str

    @property
    def text(self) -> str:
        """Both messages."""
        said = (("User", self.user), ("Assistant", self.assistant))
        return "\n".join(f"{who}: {words}" for who, words in said if words)


@dataclass(frozen=True)
class Recalled:
    """What the model is shown of the talk."""

    memories: tuple[str, ...] = ()
    recent: tuple[Unit, ...] = ()
    """Rounds that it is shown as they were."""


class Memory(Protocol):
    """The memory of one dialogue."""

    def add(self, unit: Unit) -> Thinking[None]:
        """Take in a round."""
        ...

    def recall(self, question: str, most: int) -> Thinking[Recalled]:
        """What counts for a question: at most so many memories."""
        ...


class RememberingSubject:
    """Asks for what its memory wants, step by step, then for the message."""

    role = Role.ASSISTANT

    def __init__(self, chat: ChatSubject, vectors: "TextVectors", memory: Memory) -> None:
        self._chat, self._vectors, self._memory = chat, vectors, memory
        self._units = 0
        """Rounds of the talk that the memory holds."""
        self._round = 0
        """The latest round whose thinking is done."""
        self._recalled = Recalled()
        self._thinking: Thinking[Recalled] | None = None
        self._wanted: Ask | Embed | None = None
        self._told = 0
        """Answers of the running round that the memory was told."""

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """The next answer that the memory wants, or the message.

        Raises: as `ChatSubject.answer`; ModelUnavailable of the embedder; ValueError where an earlier round's kept answers are
            not those that the memory wants.
        """
        scripted = transcript.dialog.scripted_answers
        while self._round < transcript.turn:
            turn = self._round + 1
            if turn < transcript.turn and turn in scripted:
                self._round = turn  # nobody was asked in it: the next round takes it in
                continue
            asked = await self._go_on(_as_of(transcript, turn))
            if asked is not None and turn < transcript.turn:
                where = f"round {turn} of {transcript.dialog.dialog_id}"
                raise ValueError(f"{where} lacks the answer for {asked.purpose!r}: was its agent changed without a new version?")
            if asked is not None:
                step = await self._chat.answer(transcript, (Message(Role.USER, asked.prompt),), StepKind.ARTIFACT)
                return step.model_copy(update={"labels": ((PURPOSE, asked.purpose),)}) if isinstance(step, Step) else step
        return await self._chat.answer(transcript, self._shown(transcript))

    async def _go_on(self, transcript: Transcript) -> Ask | None:
        """Think on in a round, with its kept answers; what is to be asked next, or None at the round's end."""
        answers = [step.content for step in transcript.taken if step.kind is StepKind.ARTIFACT]
        if self._thinking is None:
            self._thinking, self._told = self._think(transcript), 0
            self._wanted = None
        try:
            if self._wanted is None:
                self._wanted = next(self._thinking)
            while True:
                if isinstance(self._wanted, Embed):
                    self._wanted = self._thinking.send(await self._embedded(self._wanted.texts))
                elif self._told < len(answers):
                    self._told += 1
                    self._wanted = self._thinking.send(answers[self._told - 1])
                else:
                    return self._wanted
        except StopIteration as done:
            self._recalled, self._thinking = done.value, None
            self._round = transcript.turn
            return None

    def _think(self, transcript: Transcript) -> Thinking[Recalled]:
        *before, question = (m for m in messages_of(transcript, self._chat.history) if m.role is not Role.SYSTEM)
        units = units_of(before)
        for unit in units[self._units :]:
            yield from self._memory.add(unit)
        self._units = len(units)
        if not units:
            return Recalled()
        n_messages = len(transcript.context) + len(transcript.dialog.turns)
        return (yield from self._memory.recall(question.content, FEW if n_messages < SHORT else MANY))

    async def _embedded(self, texts: Sequence[str]) -> "Mapping[str, Vector]":
        """Their vectors. Of a text that is longer than the embedder takes, that of as much of its beginning as it takes."""
        found: dict[str, Vector] = {}
        shown = {text: text for text in texts if text.strip()}
        while shown:
            vectors = await self._vectors.find(tuple(shown.values()))
            found |= {text: vectors[cut] for text, cut in shown.items() if cut in vectors}
            halves = {text: cut[: len(cut) // 2] for text, cut in shown.items() if cut not in vectors}
            shown = {text: half for text, half in halves.items() if half.strip()}
        return found

    def _shown(self, transcript: Transcript) -> tuple[Message, ...]:
        messages = messages_of(transcript, self._chat.history)
        system = tuple(message for message in messages if message.role is Role.SYSTEM)
        recent = (
            Message(role, words)
            for unit in self._recalled.recent
            for role, words in ((Role.USER, unit.user), (Role.ASSISTANT, unit.assistant))
            if words
        )
        question = messages[-1].content
        if self._recalled.memories:
            question = fill(PROMPTS["recalled"], memories="\n\n".join(self._recalled.memories), question=question)
        return (*system, *recent, Message(Role.USER, question))


def _as_of(transcript: Transcript, turn: int) -> Transcript:
    """The transcript as it was when this round's answer was being thought of."""
    own = (step for step in transcript.steps if step.turn < turn or (step.turn == turn and _is_before_answer(step)))
    return replace(transcript, turn=turn, steps=tuple(own))


def _is_before_answer(step: Step) -> bool:
    return step.role is not Role.ASSISTANT or step.kind is not StepKind.MESSAGE


def units_of(messages: Sequence[Message]) -> list[Unit]:
    """The rounds of a talk: each begins with a message of the user that follows one of the assistant's."""
    rounds: list[tuple[list[str], list[str]]] = []
    for message in messages:
        is_user = message.role is Role.USER
        if not rounds or (is_user and rounds[-1][1]):
            rounds.append(([], []))
        rounds[-1][0 if is_user else 1].append(message.content)
    return [Unit(number, "\n".join(user), "\n".join(said)) for number, (user, said) in enumerate(rounds, 1)]


def in_order(units: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """Memories as they are shown: in the order of the talk, each with its round."""
    return tuple(f"[{number}] {text}" for number, text in sorted(units))


def remembering(make: Callable[[], Memory], name: str) -> BeginDialogue:
    """Begins dialogues with a memory that is empty at first and ends with the dialogue."""

    @asynccontextmanager
    async def begin(request: AgentRequest) -> AsyncIterator[MakeSeat]:
        vectors = request.embedder
        if vectors is None:
            raise ConfigError(f"agent {name} compares texts by their vectors: name what makes them by --embedder")

        def seat(history: HistoryPolicy) -> RememberingSubject:
            return RememberingSubject(ChatSubject(request.model, request.sampling, history), vectors, make())

        yield seat

    return begin


def read_object(reply: str) -> dict[str, Any]:
    """The JSON object in an answer; an empty one where none can be read."""
    found = re.search(r"\{.*\}", reply, re.DOTALL)
    try:
        held = json.loads(found.group()) if found else {}
    except (ValueError, RecursionError):
        return {}
    return held if isinstance(held, dict) else {}


def texts_in(value: Any) -> tuple[str, ...]:
    """The texts of a list, each once; others are left out."""
    listed = value if isinstance(value, list) else []
    return tuple(dict.fromkeys(text.strip() for text in listed if isinstance(text, str) and text.strip()))
