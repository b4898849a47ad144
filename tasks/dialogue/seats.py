"""Interface of the two seats of a dialogue.

A seat sees the transcript and takes a step or stops.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from schemas.dialog import Role
from schemas.episode import Step, StopReason
from tasks.dialogue.transcript import Transcript


@dataclass(frozen=True, slots=True)
class Stop:
    """End of the dialogue, chosen by a seat."""

    reason: StopReason
    error: str | None = None
    n_calls: int = 0
    """Number of requests before the seat stopped."""


class Seat(Protocol):
    """One participant of a dialogue."""

    @property
    def role(self) -> Role:
        """Return the role of the seat's messages."""
        ...

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the seat's next step in round `transcript.turn`, or the end of the dialogue.

        The engine calls it until it returns a message. `transcript.turn_steps` are the seat's steps
        of this round so far. A seat without other memory can continue from them.

        Raises:
            InfraError: A service did not answer. The engine ends the episode as infra, so it stays
                pending.
            AnswerMissing: The subject cannot answer. The engine ends the episode as subject_error.
        """
        ...


def stop_at_step_limit(transcript: Transcript, seat: Seat) -> Step | Stop:
    """Return the end of the dialogue at the step limit.

    If the subject reached the limit, it has failed. If the counterpart did, the episode ends as
    infra and stays pending.
    """
    n_steps = len(transcript.turn_steps)
    where = f"round {transcript.turn} of {transcript.problem.problem_id}"
    error = f"the {seat.role} took {n_steps} steps in {where} without a message"
    reason = StopReason.SUBJECT_ERROR if seat.role is Role.ASSISTANT else StopReason.INFRA
    return Stop(reason, error)


@dataclass(frozen=True)
class Cast:
    """Both seats of a dialogue, with the limits on rounds and steps."""

    subject: Seat
    counterpart: Seat
    max_turns: int
    max_steps: int = 100
    """Maximum steps of a seat in one turn, before its message."""
    at_step_limit: Callable[[Transcript, Seat], Step | Stop] = stop_at_step_limit
    """Replaces a seat that reached `max_steps`.

    Returns the turn's message or the end of the dialogue.
    """
