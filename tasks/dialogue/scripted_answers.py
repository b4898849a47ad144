"""Answers that the dialog contains, in addition to those of the model under test."""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.dialog import Dialog, Role
from schemas.episode import SCRIPTED, Step
from tasks.dialogue.seats import Seat, Stop
from tasks.dialogue.transcript import Transcript


@dataclass(frozen=True)
class PartlyScripted:
    """Seat that answers `answers[n]` in round n and delegates other rounds to another seat.

    The other seat sees these answers as its own.
    """

    seat: Seat
    answers: Mapping[int, str]
    role: Role = Role.ASSISTANT

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the scripted answer of round `transcript.turn`, or the other seat's step.

        Raises the errors of the other seat.
        """
        text = self.answers.get(transcript.turn)
        if text is None:
            return await self.seat.speak(transcript)
        return Step(turn=transcript.turn, role=self.role, content=text, labels=(SCRIPTED,))


def partly_scripted(seat: Seat, dialog: Dialog) -> Seat:
    """Return the seat with the dialog's scripted answers. Without any, return the seat itself."""
    answers = dialog.scripted_answers
    return PartlyScripted(seat, answers) if answers else seat
