"""A user who reads what the tests said of an answer, and asks for the first instruction that it does not meet.

Its own memory is the transcript: each of its messages says by labels which instruction it gives, and whether it is feedback.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from schemas.dialog import Role
from schemas.episode import Step, StopReason
from tasks.dialogue.seats import Stop
from tasks.dialogue.transcript import Transcript

INSTRUCTION, ROUND = "instruction", "round"
"""Names of the labels on its messages."""
FEEDBACK = "feedback"


@dataclass(frozen=True, slots=True)
class ReviewRound:
    """One of its messages."""

    turn: int
    instruction_id: str
    is_feedback: bool


@dataclass(frozen=True, slots=True)
class Review:
    """What the tests say of one instruction on one answer."""

    is_met: bool
    output: str
    """Why not; empty where it is."""


def review_rounds(steps: Sequence[Step]) -> tuple[ReviewRound, ...]:
    """Its messages among an episode's steps, in order."""
    said = ((step.turn, dict(step.labels)) for step in steps if step.role is Role.USER)
    return tuple(
        ReviewRound(turn, labels[INSTRUCTION], labels[ROUND] == FEEDBACK) for turn, labels in said
    )


@dataclass(frozen=True)
class InstructionReviewer:
    """Reviewer of dynamic conversations, who gives the first instruction in round 1.

    An answer that fails its round's instruction gets one round of feedback. If that fails as well, the
    instruction is discarded and never given again. Otherwise the next instruction is the first that the
    answer fails, given before or not. The dialogue ends when none is left.
    """

    instructions: tuple[str, ...]
    """In the order in which they are given."""
    read: Callable[[Step], Mapping[str, Review]]
    """An answer -> each instruction's review, from the reports beside it (`Step.programs`)."""
    ask: Callable[[str], str]
    """Instruction -> the message that gives it."""
    complain: Callable[[str, str], str]
    """(instruction, what its tests said) -> the message of its feedback round."""
    role: Role = Role.USER

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """The next instruction, feedback on the last one, or the end as finished.

        Raises:
            ValueError: an answer was not run with all instructions' tests.
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
        own = reviews[last.turn][last.instruction_id]
        if not last.is_feedback and not own.is_met:
            return self._step(
                transcript.turn,
                last.instruction_id,
                self.complain(last.instruction_id, own.output),
                FEEDBACK,
            )
        discarded = {
            one.instruction_id
            for one in rounds
            if one.is_feedback and not reviews[one.turn][one.instruction_id].is_met
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
