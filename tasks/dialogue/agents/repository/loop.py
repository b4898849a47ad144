"""Loop of agents in a repository: the model answers and its tools run until the work ends.

If the answer that ends the work also sends a message, the message becomes part of the last one,
since no reply follows.

All state is derived from the steps, so a loop can resume where a killed one stopped.
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
    ENDS,
    FINISHED,
    MALFORMED,
    PATCH,
    SENT_BY_TOOL,
    STEP_LIMIT,
    has_label,
    n_answers,
)
from tasks.dialogue.agents.repository.patch_extraction import patch_step
from tasks.dialogue.agents.repository.tools import (
    FINISH,
    MESSAGE_USER,
    Bash,
    EditFile,
    Finish,
    MessageUser,
)
from tasks.dialogue.chat_subject import answer_step, refusal_of
from tasks.dialogue.engine import Stop, Transcript
from tasks.dialogue.tools import DialogueWorkspace, Tool, observe
from tasks.language.chat_model import ChatModel, Completion

MOST_STEPS = 100
USUAL_STEPS = 50
"""Average answers of the model per dialogue (Dialogue-SWEBench Table 1: 50 to 61, four models)."""


@dataclass(frozen=True)
class RepositorySubject:
    """Subject of one dialogue that works in an open workspace."""

    model: ChatModel
    sampling: Sampling
    system: str
    workspace: DialogueWorkspace
    most_steps: int = MOST_STEPS
    role: Role = Role.ASSISTANT

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return the tools of the model."""
        return (Bash(self.workspace), EditFile(self.workspace), MessageUser(), Finish())

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the next step: an answer of the model, a tool's result, the patch, or a message.

        Raises:
            ModelUnavailable: No usable answer after all retries.
            AnswerMissing: A recording does not have this answer.
            SandboxUnavailable: The workspace cannot be used.
        """
        if pending := transcript.pending_calls:
            return await observe(self.tools, pending[0], transcript.turn)
        if patch := next((step for step in transcript.turn_steps if has_label(step, PATCH)), None):
            return self._last_words(transcript, patch)
        if _is_fresh(transcript) and _calls_named(transcript, FINISH):
            return await patch_step(self.workspace, transcript, FINISHED)
        if (step := _message_of_calls(transcript)) is not None:
            return step
        if n_answers(transcript.steps) >= self.most_steps:
            return await patch_step(self.workspace, transcript, STEP_LIMIT)
        return await self._answer(transcript)

    def _last_words(self, transcript: Transcript, patch: Step) -> Step:
        """Return the last message: the text to the user at the end of the work."""
        messages = [
            _argument(call, "message")
            for name in (MESSAGE_USER, FINISH)
            for call in _calls_named(transcript, name)
        ]
        reason = dict(patch.labels)[ENDS]
        words = "\n\n".join(filter(None, messages)) if reason == FINISHED else ""
        return Step(turn=transcript.turn, role=self.role, content=words, labels=((ENDED, reason),))

    async def _answer(self, transcript: Transcript) -> Step | Stop:
        """Return the model's answer.

        If the context is full, leave out old observations permanently.
        """
        before = room = room_of(transcript.steps)
        answers: list[Completion] = []
        while True:
            prompt = prompt_of(self.system, transcript, room.n_dropped)
            if room.fits(prompt):
                tools = tuple(tool.spec for tool in self.tools)
                request = transcript.request(prompt.messages, self.sampling, tools=tools)
                answer = await self.model.complete(request)
                answers.append(answer)
                if answer.content or answer.calls or answer.finish_reason != "context_length":
                    break
                is_first = len(answers) == 1
                room = room.after_refusal(
                    prompt,
                    accepted_size(self.system, transcript, room.n_dropped)
                    if is_first
                    else prompt.size,
                )
            if not prompt.n_shown:
                refused = _step(transcript, answers)
                return await patch_step(self.workspace, transcript, CONTEXT, refused)
            room = room.with_fewer_observations(prompt)
        if refusal := refusal_of(answers[-1], self.model, transcript):
            return replace(refusal, n_calls=sum(answer.n_calls for answer in answers))
        step, labels = _step(transcript, answers), room.labels(before)
        if (why := malformed(answers[-1])) is not None:
            return step.model_copy(
                update={"kind": StepKind.ARTIFACT, "labels": (*labels, (MALFORMED, why))}
            )
        return step.model_copy(update={"labels": labels})


def _calls_named(transcript: Transcript, name: str) -> list[ToolCall]:
    """Return the executed calls of a tool in the round's last answer."""
    executed_ids = {
        step.call_id
        for step in transcript.turn_steps
        if step.kind is StepKind.OBSERVATION and not step.content.startswith("Error:")
    }
    last = next(
        (step for step in reversed(transcript.turn_steps) if step.kind is StepKind.TOOL_CALL), None
    )
    return [
        call
        for call in (last.calls if last else ())
        if call.name == name and call.call_id in executed_ids
    ]


def _is_fresh(transcript: Transcript) -> bool:
    """Return True if the round's last answer called tools and all calls have results."""
    answers = [step for step in transcript.turn_steps if step.kind is not StepKind.OBSERVATION]
    return bool(answers) and answers[-1].kind is StepKind.TOOL_CALL


def _message_of_calls(transcript: Transcript) -> Step | None:
    """Return the message that the round's last answer sends by its tool, or None."""
    if not _is_fresh(transcript) or not (calls := _calls_named(transcript, MESSAGE_USER)):
        return None
    text = "\n\n".join(_argument(call, "message") for call in calls)
    return Step(
        turn=transcript.turn,
        role=Role.ASSISTANT,
        content=text,
        labels=((SENT_BY_TOOL, MESSAGE_USER),),
    )


def _argument(call: ToolCall, name: str) -> str:
    arguments: Any = json.loads(call.arguments or "{}", strict=False)
    return str(arguments.get(name, ""))


def _step(transcript: Transcript, answers: Sequence[Completion]) -> Step:
    """Return the last of the answers as a step that counts the requests of all of them."""
    n_calls = sum(answer.n_calls for answer in answers)
    return answer_step(transcript, answers[-1], StepKind.MESSAGE, n_calls)
