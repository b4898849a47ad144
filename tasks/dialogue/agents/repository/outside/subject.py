"""Subject whose steps come from another project's agent.

Each request of the agent is journaled as a step before Parley replies.

The agent's process has no essential state. After a kill, a new process receives the journaled steps
in order: each answer, each result of a call, each reply of the user. Then it continues, and no
request or command is repeated.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from schemas.dialog import Role
from schemas.episode import Step, StepKind, ToolCall
from schemas.run import Sampling
from tasks.dialogue.agents.repository.labels import (
    CONTEXT,
    ENDED,
    ENDS,
    FINISHED,
    PATCH,
    SENT_BY_TOOL,
    STEP_LIMIT,
    has_label,
    n_answers,
)
from tasks.dialogue.agents.repository.loop import patch_step
from tasks.dialogue.agents.repository.outside import session as paths
from tasks.dialogue.agents.repository.outside.adapter import Adapter, require_same_release
from tasks.dialogue.agents.repository.outside.session import (
    CHAT,
    Request,
    Session,
    completion,
    messages_in,
    tool_call,
    tools_in,
)
from tasks.dialogue.agents.repository.tools import FINISH, MESSAGE_USER, SENT, MessageUser
from tasks.dialogue.chat_subject import answer_step, refusal_of
from tasks.dialogue.engine import Stop, Transcript
from tasks.dialogue.tools import DialogueWorkspace, observe
from tasks.language.chat_model import ChatModel

_WORDS, _BY_AGENT = "words", "by_agent"
"""Labels: an answer without calls, and a result that the agent made itself."""
_ONE_MESSAGE = (
    "Error: an answer may send the user one message. Send this one again, if the reply leaves it"
    " open."
)


@dataclass
class OutsideSubject:
    """Subject of one dialogue whose steps come from another project's agent."""

    model: ChatModel
    sampling: Sampling
    workspace: DialogueWorkspace
    session: Session
    adapter: Adapter
    work: str
    """Description of the repository and of how to finish. It precedes the first user message."""
    release: str
    """Required version of the agent's package."""
    most_steps: int
    n_answers: int = 0
    """Number of the model's answers that the process has received."""
    n_results: int = 0
    """Number of tool results that the process has received."""
    n_replies: int = 0
    """Number of the user's replies that the process has received."""

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the agent's next step. See `Participant.speak`.

        Raises:
            SandboxUnavailable: the agent's process has ended, or its package has another version.
        """
        if patch := next((step for step in transcript.turn_steps if has_label(step, PATCH)), None):
            return self._last_message(transcript, dict(patch.labels)[ENDS])
        while True:
            request = await self.session.open_request()
            if (step := await self._unless_known(request, transcript)) is not None:
                return step

    async def _unless_known(self, request: Request, transcript: Transcript) -> Step | Stop | None:
        """Answer the agent from the stored steps, or return the missing step."""
        match request.path:
            case paths.START:
                return self._start(request, transcript)
            case paths.TOOL:
                return await self._tool(request, transcript)
            case paths.MESSAGE:
                return self._message(
                    request, transcript, str(request.body["text"]), self.adapter.name
                )
            case paths.FINISH:
                return _own_result(request, transcript) or await patch_step(
                    self.workspace, transcript, FINISHED
                )
            case _:
                return await self._chat(request, transcript)

    def _start(self, request: Request, transcript: Transcript) -> None:
        require_same_release(self.adapter, str(request.body["version"]), self.release)
        self.session.answer({"message": f"{self.work}\n\n{transcript.texts(Role.USER)[0]}"})

    async def _chat(self, request: Request, transcript: Transcript) -> Step | Stop | None:
        answers = [
            step
            for step in transcript.steps
            if step.kind is StepKind.TOOL_CALL or has_label(step, _WORDS)
        ]
        if self.n_answers == len(answers):
            return _own_result(request, transcript) or await self._answer(request, transcript)
        self.session.answer(completion(answers[self.n_answers]))
        self.n_answers += 1
        return None

    async def _tool(self, request: Request, transcript: Transcript) -> Step | None:
        results = [
            step
            for step in transcript.steps
            if step.kind is StepKind.OBSERVATION and not has_label(step, _BY_AGENT)
        ]
        if self.n_results < len(results):
            return self._result(request, transcript, results[self.n_results])
        name = str(request.body["name"])
        call = next((call for call in transcript.pending_calls if call.name == name), None)
        if call is None:
            self.session.answer(
                {
                    "content": _ONE_MESSAGE
                    if name == MESSAGE_USER
                    else f"Error: no answer calls {name}"
                }
            )
            return None
        if name != MESSAGE_USER:
            return await observe(
                self.adapter.tools(self.workspace),
                tool_call(request.body, call.call_id),
                transcript.turn,
            )
        return _before_message(transcript, call) or await observe(
            (MessageUser(),), tool_call(request.body, call.call_id), transcript.turn
        )

    def _result(self, request: Request, transcript: Transcript, result: Step) -> Step | None:
        """Answer a call with its result.

        A message's result is the user's reply, unless the work ends.
        """
        calls = next(
            step.calls
            for step in transcript.steps
            if any(call.call_id == result.call_id for call in step.calls)
        )
        is_message = result.content == SENT and any(
            call.call_id == result.call_id and call.name == MESSAGE_USER for call in calls
        )
        if is_message and not any(call.name == FINISH for call in calls):
            message = self._message(
                request, transcript, str(request.body["arguments"]["message"]), MESSAGE_USER
            )
            self.n_results += message is None
            return message
        self.session.answer({"content": result.content})
        self.n_results += 1
        return None

    def _message(
        self, request: Request, transcript: Transcript, text: str, tool: str
    ) -> Step | None:
        """Return the message to the user. If the user has replied, pass on the reply instead."""
        replies = transcript.texts(Role.USER)
        if self.n_replies + 1 == len(replies):
            labels = ((SENT_BY_TOOL, tool),)
            step = Step(turn=transcript.turn, role=Role.ASSISTANT, content=text, labels=labels)
            return _own_result(request, transcript) or step
        self.n_replies += 1
        reply = replies[self.n_replies]
        self.session.answer({"reply": reply, "content": reply})
        return None

    async def _answer(self, request: Request, transcript: Transcript) -> Step | Stop:
        if n_answers(transcript.steps) >= self.most_steps:
            return await patch_step(self.workspace, transcript, STEP_LIMIT)
        chat = transcript.request(
            messages_in(request.body), self.sampling, tools=tools_in(request.body)
        )
        answer = await self.model.complete(chat)
        if not answer.content and not answer.calls and answer.finish_reason == "context_length":
            refused = Step(
                turn=transcript.turn, role=Role.ASSISTANT, content="", n_calls=answer.n_calls
            )
            return await patch_step(self.workspace, transcript, CONTEXT, refused)
        if refusal := refusal_of(answer, self.model, transcript):
            return refusal
        step = answer_step(transcript, answer, StepKind.ARTIFACT)
        return step if answer.calls else step.model_copy(update={"labels": ((_WORDS, "1"),)})

    def _last_message(self, transcript: Transcript, reason: str) -> Step:
        """Return the last message: texts that the last answer sends by calls, or its own text."""
        answers = [step for step in transcript.turn_steps if step.kind is StepKind.TOOL_CALL]
        words = ""
        if answers and reason == FINISHED:
            words = "\n\n".join(_messages(answers[-1].calls)) or answers[-1].content
        return Step(
            turn=transcript.turn, role=Role.ASSISTANT, content=words, labels=((ENDED, reason),)
        )


def _messages(calls: tuple[ToolCall, ...]) -> Iterator[str]:
    """Yield the texts that the calls send to the user."""
    for call in calls:
        if call.name not in (MESSAGE_USER, FINISH):
            continue
        try:
            arguments: Any = json.loads(call.arguments, strict=False)
            text = arguments["message"]
        except (ValueError, KeyError, TypeError):
            continue
        if isinstance(text, str) and text.strip():
            yield text


def _before_message(transcript: Transcript, call: ToolCall) -> Step | None:
    """Return a result that must precede a message that ends the turn, or None if all exist.

    The agent has already run its own tools and reports their results later. A second message of the
    same answer is refused.
    """
    ends = any(pending.name == FINISH for pending in transcript.pending_calls)
    for pending in transcript.pending_calls:
        if pending.call_id != call.call_id and not ends:
            content = _ONE_MESSAGE if pending.name == MESSAGE_USER else ""
            return _agents_result(transcript, pending, content)
    return None


def _own_result(request: Request, transcript: Transcript) -> Step | None:
    """Return the result of a call that the agent ran itself (`finish`, `think`) or refused.

    None if no call lacks a result.
    """
    pending = transcript.pending_calls
    if not pending:
        return None
    messages = messages_in(request.body) if request.path == CHAT else ()
    results = (message.content for message in messages if message.call_id == pending[0].call_id)
    # mini-swe-agent replaces a malformed answer and its results by a report in a user message.
    report = messages[-1].content if messages and messages[-1].role is Role.USER else ""
    return _agents_result(transcript, pending[0], next(results, report))


def _agents_result(transcript: Transcript, call: ToolCall, content: str) -> Step:
    return Step(
        turn=transcript.turn,
        role=Role.TOOL,
        content=content,
        kind=StepKind.OBSERVATION,
        call_id=call.call_id,
        labels=((_BY_AGENT, "1"),),
    )
