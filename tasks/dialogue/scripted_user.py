"""A user with a script: says the same texts whatever the subject answers."""

from dataclasses import dataclass

from schemas.dialog import Role
from schemas.episode import Step, StopReason
from tasks.dialogue.seats import Stop
from tasks.dialogue.transcript import Transcript


@dataclass(frozen=True, slots=True)
class ScriptedUser:
    """Says `texts[n - 1]` in round n; ends the dialogue after the last."""

    texts: tuple[str, ...]
    role: Role = Role.USER

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """The text of round `transcript.turn`, or the end as finished."""
        if transcript.turn > len(self.texts):
            return Stop(StopReason.FINISHED)
        return Step(turn=transcript.turn, role=self.role, content=self.texts[transcript.turn - 1])
