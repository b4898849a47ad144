"""The steps so far, as a seat sees them: all messages, and its own steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from schemas.dialog import Dialog, Role, Turn
from schemas.episode import Step, StepKind, ToolCall
from schemas.problem import Problem


@dataclass(frozen=True, slots=True)
class Transcript:
    """An episode under way. `turn` is the round that is being played (1-based)."""

    problem: Problem
    dialog: Dialog
    sample: int
    seed: int
    turn: int
    steps: tuple[Step, ...] = ()
    context: tuple[Turn, ...] = ()
    """What was said before the dialog's own turns. It is in no step."""

    @property
    def messages(self) -> tuple[Step, ...]:
        """What was said, without the steps that led to it."""
        return tuple(step for step in self.steps if step.kind is StepKind.MESSAGE)

    @property
    def taken(self) -> tuple[Step, ...]:
        """The seat's own steps since the last message."""
        return steps_taken(self.steps)

    @property
    def call_index(self) -> int:
        """Number of the answer that the seat asks for next in its turn, from 0: each step but an observation is one."""
        return sum(step.kind is not StepKind.OBSERVATION for step in self.taken)

    @property
    def pending_calls(self) -> tuple[ToolCall, ...]:
        """Tools that the seat has called in its turn and not yet heard from, in order."""
        taken = self.taken
        heard = {step.call_id for step in taken if step.kind is StepKind.OBSERVATION}
        return tuple(call for step in taken for call in step.calls if call.call_id not in heard)

    def texts(self, role: Role) -> tuple[str, ...]:
        """All messages of one role, in order."""
        return tuple(step.content for step in self.messages if step.role is role)


def last_message(steps: Sequence[Step]) -> Step | None:
    """The message that was said last; None before the first."""
    return next((step for step in reversed(steps) if step.kind is StepKind.MESSAGE), None)


def steps_taken(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps since the last message."""
    taken = tuple(takewhile(lambda step: step.kind is not StepKind.MESSAGE, reversed(steps)))
    return taken[::-1]


def seen_by(steps: Sequence[Step], *, subject: bool) -> tuple[Step, ...]:
    """All messages, and the steps of one seat: the subject takes its steps after a message that is not its own."""
    seen: list[Step] = []
    answering = False
    for step in steps:
        if step.kind is StepKind.MESSAGE or answering == subject:
            seen.append(step)
        if step.kind is StepKind.MESSAGE:
            answering = step.role is not Role.ASSISTANT
    return tuple(seen)
