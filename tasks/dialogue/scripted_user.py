"""User with a script, whose messages do not depend on the subject's answers."""

from dataclasses import dataclass

from schemas.dialog import Role
from schemas.episode import Step, StopReason
from tasks.dialogue.seats import Stop
from tasks.dialogue.transcript import Transcript


@dataclass(frozen=True, slots=True)
class ScriptedUser:
    """User who says `texts[n - 1]` in round n and ends the dialogue after the last text."""

    texts: tuple[str, ...]
    role: Role = Role.USER

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the text of round `transcript.turn`, or the end as finished."""
        if transcript.turn > len(self.texts):
            return Stop(StopReason.FINISHED)
        return Step(turn=transcript.turn, role=self.role, content=self.texts[transcript.turn - 1])
