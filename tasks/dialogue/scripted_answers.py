"""Answers that the dialog itself gives, beside those of the model under test."""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.dialog import Dialog, Role
from schemas.episode import SCRIPTED, Step
from tasks.dialogue.seats import Seat, Stop
from tasks.dialogue.transcript import Transcript


@dataclass(frozen=True)
class PartlyScripted:
    """Says `answers[n]` in round n; leaves the other rounds to a seat, which sees these answers as its own."""

    seat: Seat
    answers: Mapping[int, str]
    role: Role = Role.ASSISTANT

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """The script's answer of round `transcript.turn`, without a call; or the seat's, raising what that raises."""
        text = self.answers.get(transcript.turn)
        if text is None:
            return await self.seat.speak(transcript)
        return Step(turn=transcript.turn, role=self.role, content=text, labels=(SCRIPTED,))


def partly_scripted(seat: Seat, dialog: Dialog) -> Seat:
    """The seat with the dialog's scripted answers before it; the seat itself where there are none."""
    answers = dialog.scripted_answers
    return PartlyScripted(seat, answers) if answers else seat
