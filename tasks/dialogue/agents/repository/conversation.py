"""Conversation of the loop's agents as their model sees it, shortened if the context is full.

It is derived from the steps alone, so a resumed dialogue shows the same as an uninterrupted one.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from sandbox.workspace.interface import CommandResult
from schemas.dialog import Role
from schemas.episode import Step, StepKind
from schemas.errors import SandboxUnavailable
from schemas.run import Limits
from tasks.dialogue.agents.repository.labels import CALL, DROPPED, EMPTY, MALFORMED, MOST_SIZE
from tasks.dialogue.agents.repository.tools import SENT
from tasks.dialogue.engine import Transcript
from tasks.dialogue.tools import DialogueWorkspace
from tasks.language.chat_model import Completion, Message, message_of

_LEFT_OUT = "[an old observation, left out since the context is full]"
_SAID_NOTHING = "[{answers} empty. Call a tool, write to the user, or call finish.]"
_NOT_A_CALL = (
    "[Your answer holds a tool call that could not be read: {why}. Nothing was run, and the user"
    " did not get the answer. Call the tool anew, by its name and with its arguments as one JSON"
    " object.]"
)
_MARKUP = re.compile(
    r"^[ \t]*(?:<tool_call>|</?function_call>|<function[=\s]"
    r"|<\|?tool[_▁]calls?(?:[_▁]begin)?\|?>|\[TOOL_CALLS\]|<invoke\s)",
    re.MULTILINE,
)
"""Forms of calls in text at the start of a line: Hermes, Qwen, Llama, DeepSeek, Mistral, more."""


@dataclass(frozen=True)
class Prompt:
    """Messages of a request.

    Attributes:
        n_dropped: Number of observations that are left out.
        n_shown: Number of observations that could still be left out.
    """

    messages: tuple[Message, ...]
    n_dropped: int
    n_shown: int

    @property
    def size(self) -> int:
        """Return the number of characters of all texts, by which prompts are compared."""
        calls = (call.name + call.arguments for message in self.messages for call in message.calls)
        return sum(len(message.content) for message in self.messages) + sum(map(len, calls))


@dataclass(frozen=True)
class Room:
    """State of the model's context in a dialogue.

    Attributes:
        n_dropped: Number of oldest observations to leave out. It never falls, so each overflow is
            paid for once.
        most_size: Characters of the largest prompt that fits. None before the first overflow.
    """

    n_dropped: int = 0
    most_size: int | None = None

    def fits(self, prompt: Prompt) -> bool:
        """Return True if a prompt is worth a request: it should fit, or it cannot be shortened."""
        return not prompt.n_shown or self.most_size is None or prompt.size <= self.most_size

    def after_refusal(self, prompt: Prompt, accepted: int) -> "Room":
        """Return the state after a prompt was too long.

        Args:
            prompt: Prompt that was too long.
            accepted: Size of a prompt that fit.
        """
        bound = min(accepted, prompt.size - 1)
        return replace(
            self, most_size=bound if self.most_size is None else min(bound, self.most_size)
        )

    def with_fewer_observations(self, prompt: Prompt) -> "Room":
        """Return the state with the older half of the observations left out.

        A smaller cut would be followed by another one soon.
        """
        return replace(self, n_dropped=prompt.n_dropped + prompt.n_shown - prompt.n_shown // 2)

    def labels(self, before: "Room") -> tuple[tuple[str, str], ...]:
        """Return the labels that record this state in an answer's step, given the state before."""
        dropped = ((DROPPED, str(self.n_dropped)),) if self.n_dropped else ()
        return (
            dropped
            if self.most_size == before.most_size
            else (*dropped, (MOST_SIZE, str(self.most_size)))
        )


def room_of(steps: Sequence[Step]) -> Room:
    """Return the context's state, as recorded in the labels of the steps."""
    labels = [dict(step.labels) for step in steps if step.labels]
    dropped = [int(values[DROPPED]) for values in labels if DROPPED in values]
    sizes = [int(values[MOST_SIZE]) for values in labels if MOST_SIZE in values]
    return Room(max(dropped, default=0), min(sizes, default=None))


def accepted_size(system: str, transcript: Transcript, n_dropped: int) -> int:
    """Return the size of the latest answer's prompt, or 0 without an answer."""
    answers = [
        n for n, step in enumerate(transcript.steps) if step.role is Role.ASSISTANT and step.n_calls
    ]
    return (
        prompt_of(
            system, replace(transcript, steps=transcript.steps[: answers[-1]]), n_dropped
        ).size
        if answers
        else 0
    )


def malformed(answer: Completion) -> str | None:
    """Return why an answer is unusable (EMPTY or CALL), or None if it is usable."""
    if answer.calls:
        return None
    if not answer.content.strip():
        return EMPTY
    return CALL if _MARKUP.search(answer.content) else None


def prompt_of(system: str, transcript: Transcript, n_dropped: int) -> Prompt:
    """Return the conversation as the model sees it.

    If a tool call sent a message, the user's reply takes the place of the call's result. Notices
    about empty answers are appended to the previous user message, since many chat templates reject
    two user messages in a row.

    Args:
        system: Text of the system message.
        transcript: Transcript as the agent sees it.
        n_dropped: Number of oldest observations to leave out.
    """
    steps = transcript.steps
    indices = [
        n
        for n, step in enumerate(steps)
        if step.kind is StepKind.OBSERVATION and step.content != SENT
    ]
    left_out = frozenset(indices[:n_dropped])
    messages = [Message(Role.SYSTEM, system)]
    message_index: int | None = None
    for n, step in enumerate(steps):
        if step.kind is StepKind.ARTIFACT:
            _add_malformed(messages, steps, n)
        elif step.kind is StepKind.OBSERVATION:
            messages.append(
                Message(Role.TOOL, _LEFT_OUT if n in left_out else step.content, (), step.call_id)
            )
            message_index = len(messages) - 1 if step.content == SENT else message_index
        elif (
            step.kind is StepKind.MESSAGE
            and step.role is Role.ASSISTANT
            and message_index is not None
        ):
            continue  # The call already contains the message.
        elif step.kind is StepKind.MESSAGE and step.role is Role.USER and message_index is not None:
            messages[message_index] = replace(messages[message_index], content=step.content)
            message_index = None
        else:
            messages.append(message_of(step))
    return Prompt(tuple(messages), len(left_out), len(indices) - len(left_out))


def _add_malformed(messages: list[Message], steps: Sequence[Step], n: int) -> None:
    """Add the notice about an unusable answer. A series of empty answers gets one notice."""
    kind = dict(steps[n].labels).get(MALFORMED)
    if kind == CALL:
        messages.append(Message(Role.ASSISTANT, steps[n].content))
        messages.append(Message(Role.USER, _NOT_A_CALL.format(why=_call_fault(steps[n].content))))
    if kind != EMPTY or (n + 1 < len(steps) and _is_empty(steps[n + 1])):
        return
    number = 1
    while _is_empty(steps[n - number]):
        number += 1
    notice = _SAID_NOTHING.format(
        answers="Your answer is" if number == 1 else f"Your last {number} answers are"
    )
    if messages[-1].role is Role.USER:
        messages[-1] = replace(messages[-1], content=f"{messages[-1].content}\n\n{notice}")
    else:
        messages.append(Message(Role.USER, notice))


def _is_empty(step: Step) -> bool:
    return (MALFORMED, EMPTY) in step.labels


def _call_fault(content: str) -> str:
    """Return what is wrong with a tool call in the text of an answer."""
    begin, end = content.find("{"), content.rfind("}")
    if begin < 0:
        return "it holds no JSON object"
    try:
        json.loads(content[begin : end + 1] if end > begin else content[begin:], strict=False)
    except (ValueError, RecursionError) as error:
        return f"it is no valid JSON ({error})"
    return "it stands in the answer's text"


class OpeningWorkspace:
    """Workspace that waits until it is open. See `tasks.dialogue.tools.DialogueWorkspace`.

    If opening fails, each use raises the error. An OSError becomes SandboxUnavailable, since a tool
    would take it for an error of its file.
    """

    def __init__(self, opened: asyncio.Task[DialogueWorkspace]) -> None:
        self._opened = opened

    async def shell(self, command: str, limits: Limits | None = None) -> CommandResult:
        return await (await self._workspace()).shell(command, limits)

    async def run(
        self, argv: tuple[str, ...], limits: Limits | None = None, *, stdin: bytes = b""
    ) -> CommandResult:
        return await (await self._workspace()).run(argv, limits, stdin=stdin)

    async def read(self, path: str) -> bytes:
        return await (await self._workspace()).read(path)

    async def write(self, path: str, data: bytes) -> None:
        await (await self._workspace()).write(path, data)

    async def snapshot(self) -> str:
        return await (await self._workspace()).snapshot()

    async def _workspace(self) -> DialogueWorkspace:
        try:
            return await asyncio.shield(self._opened)
        except OSError as fault:
            raise SandboxUnavailable(f"the workspace was not opened: {fault}") from fault


@asynccontextmanager
async def open_in_background(
    manager: AbstractAsyncContextManager[DialogueWorkspace],
) -> AsyncIterator[DialogueWorkspace]:
    """Enter the context manager in the background, and exit it after the body.

    Errors of a workspace that was never used are ignored.
    """
    async with AsyncExitStack() as stack:
        opened = asyncio.create_task(stack.enter_async_context(manager))
        try:
            yield OpeningWorkspace(opened)
        finally:
            opened.cancel()
            await asyncio.gather(opened, return_exceptions=True)
