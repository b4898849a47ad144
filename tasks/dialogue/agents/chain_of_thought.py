"""Chain-of-thought prompting: the model is asked for its reasoning first, and for the answer with that before its eyes.

The reasoning is kept as an artifact of the turn. Neither the user nor a later turn sees it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from schemas.dialog import HistoryPolicy, Role
from schemas.episode import Step, StepKind
from tasks.dialogue.agents.contract import Agent, AgentRequest, MakeSeat
from tasks.dialogue.chat_subject import ChatSubject, messages_of
from tasks.dialogue.seats import Stop
from tasks.dialogue.transcript import Transcript
from tasks.language.chat_model import Message
from tasks.language.prompt import PromptTexts

PROMPTS = PromptTexts("tasks.dialogue.agents", ("reason", "answer"))


@dataclass(frozen=True)
class ThinkingSubject:
    """Two requests a turn: one for an artifact, one for the message."""

    chat: ChatSubject
    role: Role = Role.ASSISTANT

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """The reasoning, or the answer where the turn has its reasoning. Raises: as `ChatSubject.answer`."""
        *before, last = messages_of(transcript, self.chat.history)
        asked = replace(last, content=f"{last.content}\n\n{PROMPTS['reason']}")
        thought = next((step for step in transcript.taken if step.kind is StepKind.ARTIFACT), None)
        if thought is None:
            return await self.chat.answer(transcript, (*before, asked), StepKind.ARTIFACT)
        said = (
            Message(Role.ASSISTANT, thought.content or "-"),
            Message(Role.USER, PROMPTS["answer"]),
        )
        return await self.chat.answer(transcript, (*before, asked, *said))


@asynccontextmanager
async def begin(request: AgentRequest) -> AsyncIterator[MakeSeat]:
    """It has no state but its steps."""

    def seat(history: HistoryPolicy) -> ThinkingSubject:
        return ThinkingSubject(ChatSubject(request.model, request.sampling, history))

    yield seat


AGENT = Agent(
    name="chain_of_thought",
    version="1",
    help="asks for the reasoning first, then for the answer",
    begin=begin,
    prompts=PROMPTS,
    calls_per_turn=2,
)
