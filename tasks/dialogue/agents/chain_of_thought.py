"""Chain-of-thought prompting: one request for the reasoning, then one for the answer.

The second request shows the reasoning. It is stored as an artifact of the turn, invisible to the
user and to later turns.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from schemas.dialog import HistoryPolicy, Role
from schemas.episode import Step, StepKind
from tasks.dialogue.agents.contract import Agent, AgentRequest, MakeSubject
from tasks.dialogue.chat_subject import ChatSubject, messages_of
from tasks.dialogue.engine import Stop, Transcript
from tasks.language.chat_model import Message
from tasks.language.prompt import PromptTexts

PROMPTS = PromptTexts("tasks.dialogue.agents", ("reason", "answer"))


@dataclass(frozen=True)
class ThinkingSubject:
    """Subject with two requests per turn: one for an artifact, one for the message."""

    chat: ChatSubject

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the reasoning, or the answer if the turn has its reasoning already.

        Raises the errors of `ChatSubject.answer`.
        """
        *before, last = messages_of(transcript, self.chat.history)
        prompt = replace(last, content=f"{last.content}\n\n{PROMPTS['reason']}")
        reasoning = next(
            (step for step in transcript.turn_steps if step.kind is StepKind.ARTIFACT), None
        )
        if reasoning is None:
            return await self.chat.answer(transcript, (*before, prompt), StepKind.ARTIFACT)
        follow_up = (
            Message(Role.ASSISTANT, reasoning.content or "-"),
            Message(Role.USER, PROMPTS["answer"]),
        )
        return await self.chat.answer(transcript, (*before, prompt, *follow_up))


@asynccontextmanager
async def begin(request: AgentRequest) -> AsyncIterator[MakeSubject]:
    """Yield the function that makes the subject. The agent has no state other than its steps."""

    def make_subject(history: HistoryPolicy) -> ThinkingSubject:
        return ThinkingSubject(ChatSubject(request.model, request.sampling, history))

    yield make_subject


AGENT = Agent(
    name="chain_of_thought",
    version="1",
    help="requests the reasoning first, then the answer",
    begin=begin,
    prompts=PROMPTS,
    calls_per_turn=2,
)
