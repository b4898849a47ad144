"""What agents with a memory share: a round of the talk is one unit, and the model is asked with what is recalled for a question.

A memory is a generator that yields what it wants: an answer of the model (`Ask`) or vectors (`Embed`). Each answer is an artifact
of the turn in which it was asked for, so it is journaled before the next. The state is what the generators make of these answers:
after a kill they are run again over the kept ones, and nothing is asked twice.
"""

import json
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from schemas.dialog import HistoryPolicy, Role
from schemas.episode import Step, StepKind
from schemas.errors import ConfigError
from tasks.dialogue.agents.contract import AgentRequest, BeginDialogue, MakeSeat
from tasks.dialogue.agents.memory.shared_talk import SharedTalk, shared
from tasks.dialogue.chat_subject import ChatSubject, messages_of
from tasks.dialogue.seats import Stop
from tasks.dialogue.tools import observe
from tasks.dialogue.transcript import Transcript
from tasks.language.chat_model import Message
from tasks.language.prompt import PromptTexts, fill
from tasks.language.quotation import json_line

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
"""Messages from which a dialogue is long; memories recalled in a short and in a long one (UniDial-EvalKit section 4.2)."""
PURPOSE = "asked_for"
"""Label of an artifact: what its text is for."""
T = TypeVar("T")


@dataclass(frozen=True)
class Ask:
    """The model's answer is wanted. It becomes a step of the turn."""

    purpose: str
    prompt: str
    is_shared: bool = False
    """Whether it is about a talk that other dialogues have before them, too."""


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
        """Both messages, as they are embedded."""
        said = (("User", self.user), ("Assistant", self.assistant))
        return "\n".join(f"{who}: {words}" for who, words in said if words)

    @property
    def shown(self) -> str:
        """Both messages as a model reads them: neither can imitate the other."""
        return shown_as(user=self.user, assistant=self.assistant)

    def beyond(self, known: "Unit") -> "Unit":
        """What it holds beyond what was known of it: some histories show a round's later messages within it."""
        new = (
            now.removeprefix(before).strip("\n")
            for now, before in ((self.user, known.user), (self.assistant, known.assistant))
        )
        return Unit(self.number, *new)


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

    def __init__(
        self, chat: ChatSubject, vectors: "TextVectors", memory: Memory, talk: SharedTalk
    ) -> None:
        self._chat, self._vectors, self._memory, self._shared = chat, vectors, memory, talk
        self._seen: tuple[Unit, ...] = ()
        """Rounds of the talk as they were when the memory took them in."""
        self._n_taken = 0
        """Units that the memory holds."""
        self._round = 0
        """The latest round whose thinking is done."""
        self._recalled = Recalled()
        self._thinking: Thinking[Recalled] | None = None
        self._wanted: Ask | Embed | None = None
        self._told = 0
        """Answers of the running round that the memory was told."""

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """The next answer that the memory wants, or the message. An answer that calls tools is told that there are none.

        Raises: as `ChatSubject.answer`; ModelUnavailable of the embedder; ValueError where an earlier round's kept answers are
            not those that the memory wants.
        """
        if pending := transcript.pending_calls:
            return await observe((), pending[0], transcript.turn)
        scripted = transcript.dialog.scripted_answers
        while self._round < transcript.turn:
            turn = self._round + 1
            if turn < transcript.turn and turn in scripted:
                self._round = turn  # nobody was asked in it: the next round takes it in
                continue
            asked = await self._go_on(_as_of(transcript, turn))
            if asked is not None and turn < transcript.turn:
                where = f"round {turn} of {transcript.dialog.dialog_id}"
                raise ValueError(
                    f"{where} lacks the answer for {asked.purpose!r}: was its agent changed without a new version?"
                )
            if asked is not None:
                opening = self._shared.opening(transcript) if asked.is_shared else transcript
                step = await self._chat.answer(
                    opening, (Message(Role.USER, asked.prompt),), StepKind.ARTIFACT
                )
                labels = ((PURPOSE, asked.purpose), *self._shared.labels(asked, transcript))
                # What it says beside a tool that it was not offered is its answer: nobody would run the tool.
                kept = {"kind": StepKind.ARTIFACT, "calls": (), "labels": labels}
                return step.model_copy(update=kept) if isinstance(step, Step) else step
        return await self._chat.answer(transcript, self._shown(transcript))

    async def _go_on(self, transcript: Transcript) -> Ask | None:
        """Think on in a round, with its kept answers; what is to be asked next, or None at the round's end."""
        answers = [step for step in transcript.taken if step.kind is StepKind.ARTIFACT]
        if self._thinking is None:
            self._thinking, self._told = self._think(transcript), 0
            self._wanted = None
        try:
            if self._wanted is None:
                self._wanted = next(self._thinking)
            while True:
                if isinstance(self._wanted, Embed):
                    self._wanted = self._thinking.send(await self._embedded(self._wanted.texts))
                    continue
                own = answers[self._told] if self._told < len(answers) else None
                if own is not None and self._shared.fits(self._wanted, own, transcript):
                    self._told += 1
                    self._shared.keep(self._wanted, own.content, transcript)
                    self._wanted = self._thinking.send(own.content)
                elif (answer := await self._shared.find(self._wanted, transcript)) is not None:
                    self._wanted = self._thinking.send(answer)
                else:
                    return self._wanted
        except StopIteration as done:
            await self._shared.leave(transcript)
            self._recalled, self._thinking = done.value, None
            self._round = transcript.turn
            return None

    def _think(self, transcript: Transcript) -> Thinking[Recalled]:
        units, question = units_of([m for m in self._talk(transcript) if m.role is not Role.SYSTEM])
        n_shared = 0 if self._seen else self._shared.n_units(transcript, units)
        for place, unit in enumerate(units):
            new = unit.beyond(self._seen[place]) if place < len(self._seen) else unit
            if new.text:
                self._n_taken += 1
                taking = self._memory.add(replace(new, number=self._n_taken))
                yield from shared(taking) if place < n_shared else taking
        self._seen = tuple(units)
        if not units:
            return Recalled()
        n_messages = len(transcript.context) + len(transcript.dialog.turns)
        return (yield from self._memory.recall(question, FEW if n_messages < SHORT else MANY))

    def _talk(self, transcript: Transcript) -> tuple[Message, ...]:
        """What was said, as the history policy shows it, without what the seat did in between."""
        return messages_of(replace(transcript, steps=transcript.messages), self._chat.history)

    async def _embedded(self, texts: Sequence[str]) -> "Mapping[str, Vector]":
        """Their vectors. Of a text that is longer than the embedder takes, that of as much of its beginning as it takes."""
        found: dict[str, Vector] = {}
        shown = {text: text for text in texts if text.strip()}
        while shown:
            vectors = await self._vectors.find(tuple(shown.values()))
            found |= {text: vectors[cut] for text, cut in shown.items() if cut in vectors}
            halves = {
                text: cut[: len(cut) // 2] for text, cut in shown.items() if cut not in vectors
            }
            shown = {text: half for text, half in halves.items() if half.strip()}
        return found

    def _shown(self, transcript: Transcript) -> tuple[Message, ...]:
        messages = self._talk(transcript)
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
        called = (
            step
            for step in transcript.taken
            if step.kind in (StepKind.TOOL_CALL, StepKind.OBSERVATION)
        )
        refused = (Message(step.role, step.content, step.calls, step.call_id) for step in called)
        return (*system, *recent, Message(Role.USER, question), *refused)


def _as_of(transcript: Transcript, turn: int) -> Transcript:
    """The transcript as it was when this round's answer was being thought of."""
    own = (
        step
        for step in transcript.steps
        if step.turn < turn or (step.turn == turn and _is_before_answer(step))
    )
    return replace(transcript, turn=turn, steps=tuple(own))


def _is_before_answer(step: Step) -> bool:
    return step.role is not Role.ASSISTANT or step.kind is not StepKind.MESSAGE


def units_of(messages: Sequence[Message]) -> tuple[list[Unit], str]:
    """The rounds of a talk, and what the user said since the last one: a round without an answer is none yet.

    A round begins with a message of the user that follows one of the assistant's.
    """
    rounds: list[tuple[list[str], list[str]]] = []
    for message in messages:
        is_user = message.role is Role.USER
        if not rounds or (is_user and rounds[-1][1]):
            rounds.append(([], []))
        rounds[-1][0 if is_user else 1].append(message.content)
    asked = rounds.pop()[0] if rounds and not rounds[-1][1] else []
    return [
        Unit(number, "\n".join(user), "\n".join(said))
        for number, (user, said) in enumerate(rounds, 1)
    ], "\n".join(asked)


def in_order(units: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """Memories as they are shown: in the order of the talk, each with its round."""
    return tuple(f"[{number}] {text}" for number, text in sorted(units))


def remembering(make: Callable[[], Memory], name: str) -> BeginDialogue:
    """Begins dialogues with a memory that is empty at first and ends with the dialogue."""

    @asynccontextmanager
    async def begin(request: AgentRequest) -> AsyncIterator[MakeSeat]:
        vectors = request.embedder
        if vectors is None:
            raise ConfigError(
                f"agent {name} compares texts by their vectors: name an embedder by --embedder SPEC"
            )

        talk = SharedTalk(request.talk_answers, request.sampling)

        def seat(history: HistoryPolicy) -> RememberingSubject:
            return RememberingSubject(
                ChatSubject(request.model, request.sampling, history), vectors, make(), talk
            )

        try:
            yield seat
        finally:
            await talk.aclose()

    return begin


def shown_as(**texts: str) -> str:
    """Return texts by name on one line of JSON; empty ones are left out."""
    return json_line({name: text for name, text in texts.items() if text})


def read_object(reply: str) -> dict[str, Any]:
    """The JSON object in an answer; an empty one where none can be read."""
    try:
        held = json.loads(reply[reply.find("{") : reply.rfind("}") + 1])
    except (ValueError, RecursionError):
        return {}
    return held if isinstance(held, dict) else {}


def listed(value: Any) -> list[Any]:
    """The list that an answer has there; an empty one where it has something else."""
    return value if isinstance(value, list) else []


def text_in(value: Any) -> str:
    """The text that an answer has there, fit to be sent on; empty where it has something else."""
    return value.encode("utf-8", "replace").decode().strip() if isinstance(value, str) else ""


def texts_in(value: Any) -> tuple[str, ...]:
    """The texts of a list, each once; others are left out."""
    return tuple(dict.fromkeys(text for one in listed(value) if (text := text_in(one))))
