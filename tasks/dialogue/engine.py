"""Conversation engine: the two participants alternate until one of them stops.

A participant sees the transcript, and takes a step or stops. It may take many steps before its
message.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Protocol

from schemas.dialog import Dialog, Role, Turn
from schemas.episode import Step, StepKind, StopReason, ToolCall
from schemas.errors import AnswerMissing, InfraError, ModelUnavailable, ReferenceMissing
from schemas.problem import Problem
from schemas.run import Sampling
from tasks.language.chat_model import ChatRequest, Message, ToolSpec


@dataclass(frozen=True, slots=True)
class Transcript:
    """Episode in progress. `turn` is the current round (1-based)."""

    problem: Problem
    dialog: Dialog
    sample: int
    seed: int
    turn: int
    steps: tuple[Step, ...] = ()
    context: tuple[Turn, ...] = ()
    """Turns before the dialog's own turns. No step contains them."""

    @property
    def messages(self) -> tuple[Step, ...]:
        """Return the messages, without other steps."""
        return tuple(step for step in self.steps if step.kind is StepKind.MESSAGE)

    @property
    def turn_steps(self) -> tuple[Step, ...]:
        """Return the steps of the present participant since the last message."""
        return steps_since_message(self.steps)

    @property
    def call_index(self) -> int:
        """Return the 0-based number of the participant's next answer within the current turn.

        Each step except an observation is an answer.
        """
        return sum(step.kind is not StepKind.OBSERVATION for step in self.turn_steps)

    @property
    def pending_calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls of the current turn that have no observation yet, in order."""
        own_steps = self.turn_steps
        answered_ids = {step.call_id for step in own_steps if step.kind is StepKind.OBSERVATION}
        return tuple(
            call for step in own_steps for call in step.calls if call.call_id not in answered_ids
        )

    def request(
        self,
        messages: tuple[Message, ...],
        sampling: Sampling,
        *,
        tools: tuple[ToolSpec, ...] = (),
        answer_schema: Mapping[str, Any] | None = None,
    ) -> ChatRequest:
        """Return the request for the next answer of the present participant."""
        return ChatRequest(
            messages=messages,
            sampling=sampling,
            seed=self.seed,
            problem_id=self.problem.problem_id,
            turn=self.turn,
            sample=self.sample,
            dialog_id=self.dialog.dialog_id,
            answer_schema=answer_schema,
            tools=tools,
            call_index=self.call_index,
        )

    def texts(self, role: Role) -> tuple[str, ...]:
        """Return all messages of one role, in order."""
        return tuple(step.content for step in self.messages if step.role is role)


def last_message(steps: Sequence[Step]) -> Step | None:
    """Return the last message, or None before the first."""
    return next((step for step in reversed(steps) if step.kind is StepKind.MESSAGE), None)


def steps_since_message(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps since the last message."""
    own_steps = tuple(takewhile(lambda step: step.kind is not StepKind.MESSAGE, reversed(steps)))
    return own_steps[::-1]


def visible_steps(steps: Sequence[Step], *, subject: bool) -> tuple[Step, ...]:
    """Return all messages, and the steps of one participant.

    The subject's steps follow a message of the counterpart.
    """
    visible: list[Step] = []
    answering = False
    for step in steps:
        if step.kind is StepKind.MESSAGE or answering == subject:
            visible.append(step)
        if step.kind is StepKind.MESSAGE:
            answering = step.role is not Role.ASSISTANT
    return tuple(visible)


@dataclass(frozen=True, slots=True)
class Stop:
    """End of the dialogue, chosen by a participant."""

    reason: StopReason
    error: str | None = None
    unsent: Step | None = None
    """Answer that is no message, such as a refusal. Its requests and tokens count."""


class Participant(Protocol):
    """One participant of a dialogue."""

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the next step in round `transcript.turn`, or the end of the dialogue.

        The engine calls it until it returns a message. `transcript.turn_steps` are the
        participant's steps of this round so far. A participant without other memory can continue
        from them.

        Raises:
            InfraError: A service did not answer. The engine ends the episode as infra, so it stays
                pending.
            AnswerMissing: The subject cannot answer. The engine ends the episode as subject_error.
        """
        ...


def _stop_at_step_limit(transcript: Transcript, role: Role) -> Stop:
    """Return the end of the dialogue at the step limit of a role.

    If the subject reached the limit, it has failed. If the counterpart did, the episode ends as
    infra and stays pending.
    """
    n_steps = len(transcript.turn_steps)
    where = f"round {transcript.turn} of {transcript.problem.problem_id}"
    error = f"the {role} took {n_steps} steps in {where} without a message"
    reason = StopReason.SUBJECT_ERROR if role is Role.ASSISTANT else StopReason.INFRA
    return Stop(reason, error)


@dataclass(frozen=True)
class Cast:
    """Both participants of a dialogue, with the limits on rounds and steps."""

    subject: Participant
    counterpart: Participant
    max_turns: int
    max_steps: int = 100
    """Maximum steps of a participant in one turn, before its message."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Steps of a dialogue, and the reason why it ended."""

    steps: tuple[Step, ...]
    stop_reason: StopReason
    error: str | None = None
    permanent: bool = False
    """True if another request cannot help, for example after a wrong key or served model."""
    failed_calls: int = 0
    """Number of requests for the step that failed."""


async def play_dialogue(opening: Transcript, cast: Cast, keep: Callable[[Step], None]) -> Ending:
    """Play a dialogue to its end, from its beginning or from the last step of an earlier attempt.

    Args:
        opening: Transcript so far. Its `turn` and the next participant follow from its steps.
        cast: Both participants. The counterpart opens each round and the subject answers. Each
            sees all messages and its own steps.
        keep: Stores a step. Called before the next request.

    Returns:
        The ending. Faults of services end it as `infra` and are not raised. Errors of `keep`, such
        as a full disk, are raised.
    """
    steps = opening.steps
    visible = {answering: visible_steps(steps, subject=answering) for answering in (False, True)}
    while True:
        last = last_message(steps)
        answering = last is not None and last.role is not Role.ASSISTANT
        turn = last.turn if answering and last else (last.turn + 1 if last else 1)
        if turn > cast.max_turns:
            return Ending(steps, StopReason.TURN_LIMIT)
        speaker, role = (
            (cast.subject, Role.ASSISTANT) if answering else (cast.counterpart, Role.USER)
        )
        now = replace(opening, turn=turn, steps=visible[answering])
        try:
            has_steps_left = len(steps_since_message(steps)) < cast.max_steps
            step = await speaker.speak(now) if has_steps_left else _stop_at_step_limit(now, role)
        except ReferenceMissing as missing:
            return Ending(steps, StopReason.NOT_ASKED, str(missing))
        except AnswerMissing as missing:
            return Ending(steps, StopReason.SUBJECT_ERROR, str(missing))
        except InfraError as fault:
            permanent = isinstance(fault, ModelUnavailable) and fault.permanent
            failed_calls = fault.n_calls if isinstance(fault, ModelUnavailable) else 0
            return Ending(steps, StopReason.INFRA, str(fault), permanent, failed_calls)
        if isinstance(step, Stop):
            unsent = step.unsent and step.unsent.model_copy(update={"kind": StepKind.ARTIFACT})
            if unsent is None or step.reason is StopReason.INFRA:  # The next attempt asks again.
                n_calls = unsent.n_calls if unsent else 0
                return Ending(steps, step.reason, step.error, failed_calls=n_calls)
            return Ending((*steps, unsent), step.reason, step.error)
        keep(step)
        steps = (*steps, step)
        for who in visible:
            if who == answering or step.kind is StepKind.MESSAGE:
                visible[who] = (*visible[who], step)
