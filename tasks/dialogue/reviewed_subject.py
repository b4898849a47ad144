"""Subject whose answers are tested immediately, each by several programs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schemas.dialog import Role
from schemas.episode import Step, StepKind, StopReason
from schemas.errors import SandboxUnavailable, Unscorable
from schemas.verdict import ProgramVerdict
from tasks.dialogue.programs import ProgramRunner, WantedProgram
from tasks.dialogue.seats import Seat, Stop
from tasks.dialogue.transcript import Transcript


@dataclass(frozen=True)
class ReviewedSubject:
    """Subject that runs the programs of each answer and stores the reports in `Step.programs`.

    Reports have the order of the programs.
    """

    chat: Seat
    """Seat that gives the answers."""
    programs: ProgramRunner
    programs_of: Callable[[Transcript, str], Sequence[WantedProgram]]
    """Returns the programs to run from (transcript, answer)."""
    role: Role = Role.ASSISTANT

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the answer of round `transcript.turn` with its reports, or a step before it.

        Raises the errors of the seat that answers.
        """
        answer = await self.chat.speak(transcript)
        if isinstance(answer, Stop) or answer.kind is not StepKind.MESSAGE:
            return answer
        import asyncio  # Imported here: commands that only list benchmarks start faster.

        wanted = self.programs_of(transcript, answer.content)
        try:
            reports = await asyncio.gather(*map(self._run, wanted))
        except SandboxUnavailable as fault:
            return Stop(StopReason.INFRA, str(fault), answer.n_calls)
        except Unscorable as missing:
            return Stop(StopReason.NOT_ASKED, str(missing), answer.n_calls)
        return answer.model_copy(update={"programs": tuple(reports)})

    async def _run(self, wanted: WantedProgram) -> ProgramVerdict:
        if wanted.place is None:
            return await self.programs.run(wanted.kind, wanted.code, wanted.tests)
        return await self.programs.run(wanted.kind, wanted.code, wanted.tests, wanted.place)
