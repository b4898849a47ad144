"""The conversation of the loop's agents, as their model sees it, and what it leaves out where the context is full.

Everything is read from the steps, so that a resumed dialogue shows its model what an uninterrupted one shows.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from schemas.dialog import Role
from schemas.episode import Step, StepKind
from tasks.dialogue.agents.repository.labels import CALL, DROPPED, EMPTY, MALFORMED, MOST_SIZE
from tasks.dialogue.agents.repository.tools import SENT
from tasks.dialogue.transcript import Transcript
from tasks.language.chat_model import Completion, Message

_LEFT_OUT = "[an old observation, left out since the context is full]"
_SAID_NOTHING = "[{answers} empty. Call a tool, write to the user, or call finish.]"
_NOT_A_CALL = (
    "[Your answer holds a tool call that could not be read: {why}. Nothing was run, and the user did not get the answer. Call"
    " the tool anew, by its name and with its arguments as one JSON object.]"
)
_MARKUP = re.compile(
    r"^[ \t]*(?:<tool_call>|</?function_call>|<function[=\s]|<\|?tool[_▁]calls?(?:[_▁]begin)?\|?>|\[TOOL_CALLS\]|<invoke\s)",
    re.MULTILINE,
)
"""How models write calls in text: Hermes and Qwen, Llama, DeepSeek, Mistral and others, at the beginning of a line."""


@dataclass(frozen=True)
class Prompt:
    """The messages of a request.

    Attributes:
        n_dropped: observations that are left out.
        n_shown: observations that are there, and could be left out.
    """

    messages: tuple[Message, ...]
    n_dropped: int
    n_shown: int

    @property
    def size(self) -> int:
        """Characters of all texts: the measure by which prompts are compared."""
        calls = (call.name + call.arguments for message in self.messages for call in message.calls)
        return sum(len(message.content) for message in self.messages) + sum(map(len, calls))


@dataclass(frozen=True)
class Room:
    """What a dialogue knows of its model's context.

    Attributes:
        n_dropped: oldest observations that are left out. They stay out, so that an overflow is paid for once.
        most_size: characters of the largest prompt that is known to fit; None before the first overflow.
    """

    n_dropped: int = 0
    most_size: int | None = None

    def fits(self, prompt: Prompt) -> bool:
        """Return whether a prompt is worth a request: it is known to fit, or cannot be shortened."""
        return not prompt.n_shown or self.most_size is None or prompt.size <= self.most_size

    def refused(self, prompt: Prompt, accepted: int) -> "Room":
        """Return the room after a prompt was too long.

        Args:
            accepted: size of a prompt that was not.
        """
        bound = min(accepted, prompt.size - 1)
        return replace(
            self, most_size=bound if self.most_size is None else min(bound, self.most_size)
        )

    def shortened(self, prompt: Prompt) -> "Room":
        """Return the room with the older half of the observations left out: the next answers fit without another cut."""
        return replace(self, n_dropped=prompt.n_dropped + prompt.n_shown - prompt.n_shown // 2)

    def labels(self, before: "Room") -> tuple[tuple[str, str], ...]:
        """Return the labels of an answer that keep this room in the steps."""
        dropped = ((DROPPED, str(self.n_dropped)),) if self.n_dropped else ()
        return (
            dropped
            if self.most_size == before.most_size
            else (*dropped, (MOST_SIZE, str(self.most_size)))
        )


def room_of(steps: Sequence[Step]) -> Room:
    """Return what the steps tell of the context."""
    labels = [dict(step.labels) for step in steps if step.labels]
    dropped = [int(one[DROPPED]) for one in labels if DROPPED in one]
    sizes = [int(one[MOST_SIZE]) for one in labels if MOST_SIZE in one]
    return Room(max(dropped, default=0), min(sizes, default=None))


def accepted_size(system: str, transcript: Transcript, n_dropped: int) -> int:
    """Return the size of the prompt that brought the latest answer; 0 where there is none."""
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
    """Return why an answer cannot be used (EMPTY or CALL); None where it calls tools or speaks."""
    if answer.calls:
        return None
    if not answer.content.strip():
        return EMPTY
    return CALL if _MARKUP.search(answer.content) else None


def prompt_of(system: str, transcript: Transcript, n_dropped: int) -> Prompt:
    """Return the conversation as the model sees it.

    The user's reply to a message that was sent by a tool stands where the call's result belongs. No two messages of the user
    follow one another, since many chat templates refuse that: what an empty answer is told is added to the message before it.

    Args:
        n_dropped: how many of the oldest observations are left out.
    """
    steps = transcript.steps
    places = [
        n
        for n, step in enumerate(steps)
        if step.kind is StepKind.OBSERVATION and step.content != SENT
    ]
    left_out = frozenset(places[:n_dropped])
    messages = [Message(Role.SYSTEM, system)]
    asks: int | None = None
    for n, step in enumerate(steps):
        if step.kind is StepKind.ARTIFACT:
            _add_malformed(messages, steps, n)
        elif step.kind is StepKind.OBSERVATION:
            messages.append(
                Message(Role.TOOL, _LEFT_OUT if n in left_out else step.content, (), step.call_id)
            )
            asks = len(messages) - 1 if step.content == SENT else asks
        elif step.kind is StepKind.MESSAGE and step.role is Role.ASSISTANT and asks is not None:
            continue  # the call says it already
        elif step.kind is StepKind.MESSAGE and step.role is Role.USER and asks is not None:
            messages[asks] = replace(messages[asks], content=step.content)
            asks = None
        else:
            messages.append(Message(step.role, step.content, step.calls, step.call_id))
    return Prompt(tuple(messages), len(left_out), len(places) - len(left_out))


def _add_malformed(messages: list[Message], steps: Sequence[Step], n: int) -> None:
    """Add what the model is told of an answer that could not be used. Empty answers in a row are told of once."""
    kind = dict(steps[n].labels).get(MALFORMED)
    if kind == CALL:
        messages.append(Message(Role.ASSISTANT, steps[n].content))
        messages.append(Message(Role.USER, _NOT_A_CALL.format(why=_why_no_call(steps[n].content))))
    if kind != EMPTY or (n + 1 < len(steps) and _is_empty(steps[n + 1])):
        return
    number = 1
    while _is_empty(steps[n - number]):
        number += 1
    told = _SAID_NOTHING.format(
        answers="Your answer is" if number == 1 else f"Your last {number} answers are"
    )
    if messages[-1].role is Role.USER:
        messages[-1] = replace(messages[-1], content=f"{messages[-1].content}\n\n{told}")
    else:
        messages.append(Message(Role.USER, told))


def _is_empty(step: Step) -> bool:
    return (MALFORMED, EMPTY) in step.labels


def _why_no_call(content: str) -> str:
    """Say what is wrong with a call that stands in an answer's text."""
    begin, end = content.find("{"), content.rfind("}")
    if begin < 0:
        return "it holds no JSON object"
    try:
        json.loads(content[begin : end + 1] if end > begin else content[begin:], strict=False)
    except (ValueError, RecursionError) as error:
        return f"it is no valid JSON ({error})"
    return "it stands in the answer's text"
