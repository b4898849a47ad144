"""Steps of a dialogue so far, as one seat sees them: all messages, and the seat's own steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from schemas.dialog import Dialog, Role, Turn
from schemas.episode import Step, StepKind, ToolCall
from schemas.problem import Problem


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
        """Return the seat's own steps since the last message."""
        return steps_since_message(self.steps)

    @property
    def call_index(self) -> int:
        """Return the 0-based number of the seat's next answer in its turn.

        Each step except an observation is an answer.
        """
        return sum(step.kind is not StepKind.OBSERVATION for step in self.turn_steps)

    @property
    def pending_calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls of the seat's turn without an observation yet, in order."""
        own_steps = self.turn_steps
        answered_ids = {step.call_id for step in own_steps if step.kind is StepKind.OBSERVATION}
        return tuple(
            call for step in own_steps for call in step.calls if call.call_id not in answered_ids
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
    """Return all messages, and the steps of one seat.

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
