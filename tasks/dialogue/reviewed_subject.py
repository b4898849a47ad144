"""Subject whose answers are tested immediately, and the user who reviews the test results.

Several programs test each answer. The user requests the first instruction that the answer violates.
The transcript is the user's memory: labels of each message name its instruction and kind.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from schemas.dialog import Role
from schemas.episode import Step, StepKind, StopReason
from schemas.errors import SandboxUnavailable, Unscorable
from schemas.verdict import ProgramVerdict
from tasks.dialogue.engine import Seat, Stop, Transcript
from tasks.dialogue.tools import ProgramRunner, WantedProgram


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


INSTRUCTION, ROUND = "instruction", "round"
"""Labels on the reviewer's messages: id of the instruction, and kind of the round."""
FEEDBACK = "feedback"


@dataclass(frozen=True, slots=True)
class ReviewRound:
    """Message of the reviewer: its turn, instruction and kind."""

    turn: int
    instruction_id: str
    is_feedback: bool


@dataclass(frozen=True, slots=True)
class Review:
    """Test result of one instruction on one answer."""

    is_met: bool
    output: str
    """Reason of a failure. Empty if the instruction is met."""


def review_rounds(steps: Sequence[Step]) -> tuple[ReviewRound, ...]:
    """Return the reviewer's messages among an episode's steps, in order."""
    messages = ((step.turn, dict(step.labels)) for step in steps if step.role is Role.USER)
    return tuple(
        ReviewRound(turn, labels[INSTRUCTION], labels[ROUND] == FEEDBACK)
        for turn, labels in messages
    )


@dataclass(frozen=True)
class InstructionReviewer:
    """Reviewer of dynamic conversations, who gives the first instruction in round 1.

    An answer that fails its round's instruction gets one round of feedback. If the next answer
    fails the instruction as well, the instruction is discarded and never given again. Then, or
    after an answer that passes, the next instruction is the first remaining one that the latest
    answer fails. It may have been given before. The dialogue ends when none remains.
    """

    instructions: tuple[str, ...]
    """Ids of the instructions, in the order in which they are given."""
    read: Callable[[Step], Mapping[str, Review]]
    """Returns the review of each instruction from an answer, by the reports in `Step.programs`."""
    ask: Callable[[str], str]
    """Returns the message that gives an instruction."""
    complain: Callable[[str, str], str]
    """Returns the message of a feedback round from (instruction, output of its tests)."""
    role: Role = Role.USER

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the next instruction, feedback on the last one, or the end as finished.

        Raises:
            ValueError: An answer was not run with all instructions' tests.
        """
        if transcript.turn == 1:
            return self._step(
                1, self.instructions[0], self.ask(self.instructions[0]), "instruction"
            )
        rounds = review_rounds(transcript.messages)
        reviews = {
            step.turn: self.read(step)
            for step in transcript.messages
            if step.role is Role.ASSISTANT
        }
        last = rounds[-1]
        review = reviews[last.turn][last.instruction_id]
        if not last.is_feedback and not review.is_met:
            return self._step(
                transcript.turn,
                last.instruction_id,
                self.complain(last.instruction_id, review.output),
                FEEDBACK,
            )
        discarded = {
            earlier.instruction_id
            for earlier in rounds
            if earlier.is_feedback and not reviews[earlier.turn][earlier.instruction_id].is_met
        }
        left = (
            name
            for name in self.instructions
            if name not in discarded and not reviews[last.turn][name].is_met
        )
        chosen = next(left, None)
        if chosen is None:
            return Stop(StopReason.FINISHED)
        return self._step(transcript.turn, chosen, self.ask(chosen), "instruction")

    def _step(self, turn: int, name: str, content: str, kind: str) -> Step:
        return Step(
            turn=turn, role=self.role, content=content, labels=((INSTRUCTION, name), (ROUND, kind))
        )
