"""The loop of agents in a repository: the model answers, its tools run, until it ends or has no step left.

Words to the user in the answer that ends the work belong to the agent's last words: nobody is heard after them.

Everything is read from the steps: a loop that is made anew from them goes on where a killed one was.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemas.dialog import Role
from schemas.episode import Step, StepKind, ToolCall
from schemas.run import Sampling
from tasks.dialogue.agents.repository.conversation import (
    accepted_size,
    malformed,
    prompt_of,
    room_of,
)
from tasks.dialogue.agents.repository.labels import (
    CONTEXT,
    ENDED,
    FINISHED,
    MALFORMED,
    PATCH,
    SENT_BY_TOOL,
    STEP_LIMIT,
    n_answers,
)
from tasks.dialogue.agents.repository.taking import take_patch
from tasks.dialogue.agents.repository.tools import (
    FINISH,
    MESSAGE_USER,
    Bash,
    EditFile,
    Finish,
    MessageUser,
)
from tasks.dialogue.answered import answered_step
from tasks.dialogue.chat_subject import refusal_of
from tasks.dialogue.seats import Stop
from tasks.dialogue.tools import Tool, observe
from tasks.dialogue.transcript import Transcript
from tasks.dialogue.workspaces import SeatWorkspace
from tasks.language.chat_model import ChatModel, ChatRequest, Completion, Message

MOST_STEPS = 100
USUAL_STEPS = 50
"""Answers of the model in a dialogue, on average over four models (Dialogue-SWEBench Table 1: 50 to 61)."""
_ENDS = "ends"


@dataclass(frozen=True)
class RepositorySeat:
    """The subject's seat, on an open workspace."""

    model: ChatModel
    sampling: Sampling
    system: str
    workspace: SeatWorkspace
    most_steps: int = MOST_STEPS
    role: Role = Role.ASSISTANT

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What the model may call."""
        return (Bash(self.workspace), EditFile(self.workspace), MessageUser(), Finish())

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """The next step: an answer of the model, what came of a tool, the patch, or a message.

        Raises:
            ModelUnavailable: no usable answer after all retries.
            AnswerMissing: a recording without this answer.
            SandboxUnavailable: the workspace cannot be used.
        """
        if pending := transcript.pending_calls:
            return await observe(self.tools, pending[0], transcript.turn)
        if patch := next(filter(_is_patch, transcript.taken), None):
            return self._last_words(transcript, patch)
        if _is_to_end(transcript):
            return await self._patch(transcript, FINISHED)
        if (step := _due_after_calls(transcript)) is not None:
            return step
        if n_answers(transcript.steps) >= self.most_steps:
            return await self._patch(transcript, STEP_LIMIT)
        return await self._answer(transcript)

    async def _patch(
        self, transcript: Transcript, reason: str, asked: Sequence[Completion] = ()
    ) -> Step:
        """The patch as an artifact, and why the work is over.

        Args:
            asked: answers that came to nothing, whose requests count.
        """
        patch, how = await take_patch(self.workspace)
        labels = ((PATCH, how), (_ENDS, reason))
        step = (
            _step(transcript, asked)
            if asked
            else Step(turn=transcript.turn, role=self.role, content="")
        )
        return step.model_copy(
            update={"content": patch, "kind": StepKind.ARTIFACT, "labels": labels}
        )

    def _last_words(self, transcript: Transcript, patch: Step) -> Step:
        """The last message: what is said to the user as the work ends."""
        called = [
            _argument(call, "message")
            for name in (MESSAGE_USER, FINISH)
            for call in _calls_named(transcript, name)
        ]
        reason = dict(patch.labels)[_ENDS]
        words = "\n\n".join(filter(None, called)) if reason == FINISHED else ""
        return Step(turn=transcript.turn, role=self.role, content=words, labels=((ENDED, reason),))

    async def _answer(self, transcript: Transcript) -> Step | Stop:
        """The model's answer. Where the context is full, old observations are left out, from then on for good."""
        before = room = room_of(transcript.steps)
        asked: list[Completion] = []
        while True:
            prompt = prompt_of(self.system, transcript, room.n_dropped)
            if room.fits(prompt):
                answer = await self.model.complete(self._request(transcript, prompt.messages))
                asked.append(answer)
                if answer.content or answer.calls or answer.finish_reason != "context_length":
                    break
                is_first = len(asked) == 1
                room = room.refused(
                    prompt,
                    accepted_size(self.system, transcript, room.n_dropped)
                    if is_first
                    else prompt.size,
                )
            if not prompt.n_shown:
                return await self._patch(transcript, CONTEXT, asked)
            room = room.shortened(prompt)
        if refusal := refusal_of(asked[-1], self.model, transcript):
            return replace(refusal, n_calls=sum(one.n_calls for one in asked))
        step, labels = _step(transcript, asked), room.labels(before)
        if (why := malformed(asked[-1])) is not None:
            return step.model_copy(
                update={"kind": StepKind.ARTIFACT, "labels": (*labels, (MALFORMED, why))}
            )
        return step.model_copy(update={"labels": labels})

    def _request(self, transcript: Transcript, messages: tuple[Message, ...]) -> ChatRequest:
        return ChatRequest(
            messages=messages,
            sampling=self.sampling,
            seed=transcript.seed,
            problem_id=transcript.problem.problem_id,
            turn=transcript.turn,
            sample=transcript.sample,
            dialog_id=transcript.dialog.dialog_id,
            tools=tuple(tool.spec for tool in self.tools),
            call_index=transcript.call_index,
        )


def _calls_named(transcript: Transcript, name: str) -> list[ToolCall]:
    """Calls of the round's last answer that name a tool and were carried out."""
    heard = {
        step.call_id
        for step in transcript.taken
        if step.kind is StepKind.OBSERVATION and not step.content.startswith("Error:")
    }
    last = next(
        (step for step in reversed(transcript.taken) if step.kind is StepKind.TOOL_CALL), None
    )
    return [
        call for call in (last.calls if last else ()) if call.name == name and call.call_id in heard
    ]


def _is_fresh(transcript: Transcript) -> bool:
    """Whether the latest answer of the round called tools, and all of them were answered."""
    answers = [step for step in transcript.taken if step.kind is not StepKind.OBSERVATION]
    return bool(answers) and answers[-1].kind is StepKind.TOOL_CALL


def _is_patch(step: Step) -> bool:
    return any(name == PATCH for name, _ in step.labels)


def _due_after_calls(transcript: Transcript) -> Step | None:
    """The message that the round's last answer sends by its tool."""
    if not _is_fresh(transcript) or not (calls := _calls_named(transcript, MESSAGE_USER)):
        return None
    text = "\n\n".join(_argument(call, "message") for call in calls)
    return Step(
        turn=transcript.turn,
        role=Role.ASSISTANT,
        content=text,
        labels=((SENT_BY_TOOL, MESSAGE_USER),),
    )


def _is_to_end(transcript: Transcript) -> bool:
    return _is_fresh(transcript) and bool(_calls_named(transcript, FINISH))


def _argument(call: ToolCall, name: str) -> str:
    given: Any = json.loads(call.arguments or "{}", strict=False)
    return str(given.get(name, ""))


def _step(transcript: Transcript, asked: Sequence[Completion]) -> Step:
    """The last answer, with the number of all requests."""
    return answered_step(transcript, asked[-1], StepKind.MESSAGE, sum(one.n_calls for one in asked))
