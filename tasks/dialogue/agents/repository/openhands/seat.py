"""The subject's seat with the SDK behind it: whatever the SDK asks for is a step, journaled before it is answered.

The SDK has no memory that counts. After a kill it begins anew and is told what the steps hold, in their order: each answer, what
came of each call, each reply of the user. Then it goes on; nothing is asked or run twice.
"""

import json
from dataclasses import dataclass
from typing import Any

from schemas.dialog import Role
from schemas.episode import Step, StepKind
from schemas.errors import SandboxUnavailable
from schemas.run import Sampling
from tasks.dialogue.agents.repository.labels import CONTEXT, ENDED, FINISHED, PATCH, SENT_BY_TOOL, STEP_LIMIT, n_answers
from tasks.dialogue.agents.repository.openhands.session import Asked, Session
from tasks.dialogue.agents.repository.openhands.wire import completion, messages_in, tool_call, tools_in
from tasks.dialogue.agents.repository.taking import take_patch
from tasks.dialogue.agents.repository.tools import Bash, EditFile
from tasks.dialogue.answered import answered_step
from tasks.dialogue.seats import Stop
from tasks.dialogue.tools import observe
from tasks.dialogue.transcript import Transcript
from tasks.dialogue.workspaces import SeatWorkspace
from tasks.language.chat_model import ChatModel, ChatRequest

_SPOKE, _ENDS, _OF_SDK = "spoke", "ends", "of_sdk"


@dataclass
class OpenHandsSeat:
    """One dialogue's."""

    model: ChatModel
    sampling: Sampling
    workspace: SeatWorkspace
    session: Session
    told: str
    """Of the repository and of the end; stands before the user's first message."""
    version: str
    most_steps: int
    role: Role = Role.ASSISTANT
    n_chats: int = 0
    n_tools: int = 0
    n_said: int = 0

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """See `Seat.speak`.

        Raises:
            SandboxUnavailable: the SDK's process has ended, or the SDK has another version than the one asked for.
        """
        if patch := next((step for step in transcript.taken if _has(step, PATCH)), None):
            return Step(
                turn=transcript.turn,
                role=self.role,
                content=self._words(transcript),
                labels=((ENDED, dict(patch.labels)[_ENDS]),),
            )
        while True:
            asked = await self.session.open()
            if (step := await self._unless_known(asked, transcript)) is not None:
                return step

    async def _unless_known(self, asked: Asked, transcript: Transcript) -> Step | None:
        """Answer the SDK from the steps, or say the step that is missing."""
        own = [step for step in transcript.steps if step.role is not Role.USER]
        if asked.what == "begun":
            if asked.given["version"] != self.version:
                raise SandboxUnavailable(
                    f"the OpenHands SDK is {asked.given['version']}: say --agent-option sdk={asked.given['version']}"
                )
            self.session.answer({"message": f"{self.told}\n\n{transcript.texts(Role.USER)[0]}"})
        elif asked.what == "completions":
            answers = [step for step in own if step.kind is StepKind.TOOL_CALL or _has(step, _SPOKE)]
            if self.n_chats == len(answers):
                return _own_result(asked, transcript) or await self._answered(asked, transcript)
            self.session.answer(completion(answers[self.n_chats]))
            self.n_chats += 1
        elif asked.what == "tool":
            seen = [step for step in own if step.kind is StepKind.OBSERVATION and not _has(step, _OF_SDK)]
            if self.n_tools == len(seen):
                call = tool_call(asked.given, _call_id(transcript, str(asked.given["name"])))
                return await observe((Bash(self.workspace), EditFile(self.workspace)), call, transcript.turn)
            self.session.answer({"content": seen[self.n_tools].content})
            self.n_tools += 1
        else:
            replies = transcript.texts(Role.USER)
            if asked.given["is_over"]:
                return _own_result(asked, transcript) or await self._patch(transcript, FINISHED)
            if self.n_said + 1 == len(replies):
                if (result := _own_result(asked, transcript)) is not None:
                    return result
                labels = ((SENT_BY_TOOL, "openhands"),)
                return Step(turn=transcript.turn, role=self.role, content=asked.given["text"], labels=labels)
            self.n_said += 1
            self.session.answer({"message": replies[self.n_said]})
        return None

    async def _answered(self, asked: Asked, transcript: Transcript) -> Step:
        if n_answers(transcript.steps) >= self.most_steps:
            return await self._patch(transcript, STEP_LIMIT)
        request = ChatRequest(
            messages=messages_in(asked.given),
            sampling=self.sampling,
            seed=transcript.seed,
            problem_id=transcript.problem.problem_id,
            turn=transcript.turn,
            sample=transcript.sample,
            dialog_id=transcript.dialog.dialog_id,
            tools=tools_in(asked.given),
            call_index=transcript.call_index,
        )
        answer = await self.model.complete(request)
        if not answer.content and not answer.calls and answer.finish_reason == "context_length":
            return await self._patch(transcript, CONTEXT, answer.n_calls)
        step = answered_step(transcript, answer, StepKind.ARTIFACT)
        return step if answer.calls else step.model_copy(update={"labels": ((_SPOKE, "1"),)})

    async def _patch(self, transcript: Transcript, reason: str, n_calls: int = 0) -> Step:
        patch, how = await take_patch(self.workspace)
        labels = ((PATCH, how), (_ENDS, reason))
        return Step(turn=transcript.turn, role=self.role, content=patch, kind=StepKind.ARTIFACT, n_calls=n_calls, labels=labels)

    def _words(self, transcript: Transcript) -> str:
        """The last words: what the last answer hands to the tool that ends the work."""
        ends = [call for step in transcript.taken for call in step.calls if call.name == "finish"]
        try:
            given: Any = json.loads(ends[-1].arguments, strict=False)
            return str(given["message"])
        except (IndexError, ValueError, KeyError, TypeError):
            return ""


def _has(step: Step, label: str) -> bool:
    return any(name == label for name, _ in step.labels)


def _own_result(asked: Asked, transcript: Transcript) -> Step | None:
    """What came of a call of a tool of the SDK's own (`finish`, `think`), which it ran itself; None if no call waits for that."""
    pending = transcript.pending_calls
    if not pending:
        return None
    call_id = pending[0].call_id
    heard = messages_in(asked.given) if asked.what == "completions" else ()
    return Step(
        turn=transcript.turn,
        role=Role.TOOL,
        content=next((message.content for message in heard if message.call_id == call_id), ""),
        kind=StepKind.OBSERVATION,
        call_id=call_id,
        labels=((_OF_SDK, "1"),),
    )


def _call_id(transcript: Transcript, tool: str) -> str:
    """Id of the first call of that tool that nothing was heard of."""
    heard = {step.call_id for step in transcript.steps if step.kind is StepKind.OBSERVATION}
    open_calls = (call for step in transcript.taken for call in step.calls if call.name == tool and call.call_id not in heard)
    return next((call.call_id for call in open_calls), tool)
