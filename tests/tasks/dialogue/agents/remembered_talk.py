"""A talk whose answers hang on what is remembered of it, a model that plays both parts, and vectors
made of words.
"""

import asyncio
import itertools
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from schemas.content_id import content_id
from schemas.dialog import Dialog, HistoryPolicy, Role, Turn
from schemas.episode import Step, ToolCall
from schemas.run import ModelIdentity, Sampling
from tasks.dialogue.agents.contract import AgentRequest, TalkAnswers
from tasks.dialogue.agents.memory.contract import Ask, Thinking
from tasks.dialogue.agents.registry import AGENTS
from tasks.dialogue.chat_subject import ScriptedUser, partly_scripted
from tasks.dialogue.engine import Cast, Ending, Transcript, play_dialogue
from tasks.language.chat_model import ChatRequest, Completion
from tests.problems import simple_problem

GREEDY = Sampling()
MEMORIES = ("a-mem", "hipporag", "memoryos")
DIM = 512
Vector = np.ndarray[tuple[int], np.dtype[np.float32]]
_WORD = re.compile(r"[a-z]+")
_LAST = re.compile(r"(?:Now I say:\s*)?([^\n]*)\Z")
Reply = Callable[[str], str]


@dataclass
class Words:
    """Vectors of words: texts are the more alike, the more words they share.

    Longer texts than `longest` have none.
    """

    longest: int = 10**6
    asked: list[str] = field(default_factory=list[str])

    async def find(self, texts: Sequence[str]) -> Mapping[str, Vector]:
        await asyncio.sleep(0)
        self.asked += texts
        return {
            text: self._vector(text) for text in texts if text.strip() and len(text) <= self.longest
        }

    def _vector(self, text: str) -> Vector:
        vector = np.full(DIM, 1e-3, dtype=np.float32)
        for word in _WORD.findall(text.lower()):
            vector[zlib.crc32(word.encode()) % DIM] += 1
        return vector / np.linalg.norm(vector)


def names_in(text: str) -> list[str]:
    """Words with a capital, but for those that begin a line or a sentence."""
    return re.findall(r"(?<![.:?\n]) ([A-Z][a-z]+)", text)


def words_of(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def reply(prompt: str) -> str:
    """What the model says: facts, a choice of them, a link to the first neighbour, a subject, as
    asked for; else an echo.
    """
    if "open information" in prompt or '"triples"' in prompt:
        names = names_in(prompt.rsplit("\n\n", 1)[-1])
        return json.dumps(
            {"entities": names, "triples": [[a, "and", b] for a, b in itertools.pairwise(names)]}
        )
    if '{"facts"' in prompt:
        question, facts = re.split(r"^(?=\[\[)", prompt, maxsplit=1, flags=re.MULTILINE)
        shown = json.loads(facts.partition("\n")[0])
        return json.dumps(
            {"facts": [fact for fact in shown if {fact[0], fact[2]} & words_of(question)]}
        )
    if '"links"' in prompt:
        first = re.findall(r"^\[(\d+)\]", prompt, re.MULTILINE)[0]
        return (
            f'```json\n{{"links": [{first}], "neighbours": {{"{first}": {{"context": "changed '
            f'later", "tags": ["old"]}}}}}}\n```'
        )
    if '"context"' in prompt:
        return json.dumps({"keywords": names_in(prompt), "context": "a fact", "tags": ["fact"]})
    if '"subject"' in prompt:
        return json.dumps({"subject": "all things", "keywords": ["things"]})
    if '"profile"' in prompt:
        return json.dumps(
            {"profile": "likes facts", "user": ["asks much"], "assistant": ["knows little"]}
        )
    found = _LAST.search(prompt.strip())
    return f"noted: {found.group(1) if found else ''}"


@dataclass
class Talker:
    """A model that says `reply`, and keeps what it was asked.

    It waits its turn, so that talks come in between each other.
    """

    answer: Reply = reply
    asked: list[ChatRequest] = field(default_factory=list[ChatRequest])

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity(provider="control", name="talker")

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(request)
        await asyncio.sleep(0)
        return Completion(
            content=self.answer(request.messages[-1].content), finish_reason="stop", n_calls=1
        )

    async def aclose(self) -> None:
        """Nothing is open."""

    @property
    def messages(self) -> list[ChatRequest]:
        """The requests for the user to see, without the memory's own."""
        return [one for one in self.asked if "JSON alone" not in one.messages[-1].content]


class ToolCaller(Talker):
    """Calls a tool with all that it says, until it is told that there is none."""

    async def complete(self, request: ChatRequest) -> Completion:
        said = await super().complete(request)
        if request.messages[-1].role is Role.TOOL:
            return replace(said, content="I see.")
        return replace(said, calls=(ToolCall(call_id="1", name="look", arguments="{}"),))


T = TypeVar("T")


def thought(thinking: Thinking[T]) -> T:
    """What a memory comes to, with the answers and vectors that it wants."""
    words = Words()
    told: Any = None
    while True:
        try:
            wanted = thinking.send(told)
        except StopIteration as done:
            return done.value
        told = (
            reply(wanted.prompt)
            if isinstance(wanted, Ask)
            else asyncio.run(words.find(wanted.texts))
        )


@dataclass(frozen=True)
class Talk:
    """What a user says, after what was said before."""

    name: str
    said: tuple[str, ...]
    context: tuple[Turn, ...] = ()
    golden: tuple[str, ...] = ()
    history: HistoryPolicy = HistoryPolicy.ON_POLICY
    whole: tuple[Turn, ...] = ()
    """The talk that the context is the beginning of; empty where it is all of it."""
    scripted: tuple[int, ...] = ()
    """Rounds whose golden answers are said as they stand."""

    @property
    def dialog(self) -> Dialog:
        turns: list[Turn] = []
        for number, text in enumerate(self.said, 1):
            golden = self.golden[number - 1] if self.golden else None
            turns += [
                Turn(turn=number, role=Role.USER, content=text),
                Turn(turn=number, role=Role.ASSISTANT, content=golden, do_eval=False)
                if number in self.scripted
                else Turn(turn=number, role=Role.ASSISTANT, reference=golden),
            ]
        problem = simple_problem(self.name, self.name, "pass")
        return Dialog(
            benchmark=problem.benchmark,
            dataset_version=problem.dataset_version,
            dialog_id=self.name,
            problem_id=self.name,
            turns=tuple(turns),
            row_digest=self.name,
            context_id=content_id(self.whole or self.context) if self.context else None,
            context_turns=len(self.context),
        )

    async def play(
        self,
        agent: str,
        model: Talker,
        vectors: Words | None = None,
        steps: tuple[Step, ...] = (),
        max_steps: int = 1000,
        shared: TalkAnswers | None = None,
        sampling: Sampling = GREEDY,
        keep: Callable[[Step], None] = lambda step: None,
    ) -> Ending:
        """Play it with the agent, from these steps on.

        Args:
            shared: what dialogues after the same talk share.
            keep: called with each new step.
        """
        request = AgentRequest(
            {}, model, sampling, steps, embedder=vectors or Words(), talk_answers=shared
        )
        async with AGENTS.load(agent).begin(request) as make_subject:
            problem = simple_problem(self.name, self.name, "pass")
            opening = Transcript(
                problem, self.dialog, sample=0, seed=0, turn=1, steps=steps, context=self.context
            )
            cast = Cast(
                partly_scripted(make_subject(self.history), self.dialog),
                ScriptedUser(self.said),
                max_turns=99,
                max_steps=max_steps,
            )
            return await play_dialogue(opening, cast, keep)


def context_of(*rounds: tuple[str, str]) -> tuple[Turn, ...]:
    """A talk before the dialogue."""
    return tuple(
        Turn(turn=number, role=role, content=text)
        for number, pair in enumerate(rounds, 1)
        for role, text in zip((Role.USER, Role.ASSISTANT), pair, strict=True)
    )


FACTS = tuple(
    (f"Tell me of {place}.", f"The mayor of {place} is {mayor}, who comes from {home}.")
    for place, mayor, home in (
        ("Avalon", "Ada", "Rome"),
        ("Brig", "Bo", "Oslo"),
        ("Caen", "Cy", "Lima"),
        ("Dover", "Di", "Cairo"),
        ("Essen", "Eve", "Paris"),
        ("Faro", "Fay", "Delhi"),
        ("Genoa", "Gus", "Tokyo"),
        ("Hull", "Hal", "Quito"),
        ("Izmir", "Ivo", "Accra"),
        ("Jena", "Jo", "Kyoto"),
        ("Kiel", "Kay", "Minsk"),
        ("Leeds", "Lu", "Dakar"),
    )
)
LONG = Talk("long", ("Who is the mayor of Dover?", "And what of Kiel?"), context_of(*FACTS))
SHORT = Talk("short", tuple(user for user, _ in FACTS[:4]))
