"""The two seats of a dialogue: each sees the transcript and says something, or stops."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from schemas.dialog import Role
from schemas.episode import Step, StopReason
from tasks.dialogue.transcript import Transcript


@dataclass(frozen=True, slots=True)
class Stop:
    """A seat ends the dialogue."""

    reason: StopReason
    error: str | None = None
    n_calls: int = 0
    """Requests sent before it stopped."""


class Seat(Protocol):
    """One side of a dialogue."""

    @property
    def role(self) -> Role:
        """Role of its messages."""
        ...

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """The seat's next step in round `transcript.turn`, or the end of the dialogue. It is asked again until it says a message.

        `transcript.taken` are its steps of this round so far: a seat that has no other memory goes on after any of them.

        Raises:
            InfraError: a service did not answer; the engine ends the episode as infra, to be pending again.
            AnswerMissing: the subject cannot answer; the engine ends the episode as subject_error.
        """
        ...


def stop_at_step_limit(transcript: Transcript, seat: Seat) -> Step | Stop:
    """The subject has failed. A counterpart's fault is not the subject's: the episode is pending again."""
    n_steps = len(transcript.taken)
    said = f"the {seat.role} took {n_steps} steps in round {transcript.turn} of {transcript.problem.problem_id} and said nothing"
    return Stop(StopReason.SUBJECT_ERROR if seat.role is Role.ASSISTANT else StopReason.INFRA, said)


@dataclass(frozen=True)
class Cast:
    """Both seats of a dialogue, with its bounds: rounds, steps within a turn, and what happens at the last step."""

    subject: Seat
    counterpart: Seat
    max_turns: int
    max_steps: int = 100
    """The most steps of a seat in one turn, before its message."""
    at_step_limit: Callable[[Transcript, Seat], Step | Stop] = stop_at_step_limit
    """Takes the place of a seat that has no step left: says the turn's message, or ends the dialogue."""
