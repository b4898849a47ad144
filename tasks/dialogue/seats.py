"""The two seats of a dialogue: each sees the transcript and says something, or stops."""

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
        """The seat's message of round `transcript.turn`, or the end of the dialogue.

        Raises:
            InfraError: a service did not answer; the engine ends the episode as infra, to be owed again.
            AnswerMissing: the subject cannot answer; the engine ends the episode as subject_error.
        """
        ...


@dataclass(frozen=True)
class Cast:
    subject: Seat
    counterpart: Seat
    max_turns: int
