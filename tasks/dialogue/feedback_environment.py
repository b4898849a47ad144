"""A user who answers code with feedback: words of compiler and tests, and of a simulated person."""

from collections.abc import Callable
from dataclasses import dataclass

from schemas.dialog import Role
from schemas.episode import Step, StopReason
from schemas.feedback import Feedback
from schemas.verdict import Outcome, ProgramVerdict
from tasks.dialogue.seats import Stop
from tasks.dialogue.simulated_feedback import FixedFeedback, Remark, SimulatedFeedback
from tasks.dialogue.transcript import Transcript


@dataclass(frozen=True, slots=True)
class Observation:
    """The shown part of a program's run, before anybody speaks of it."""

    feedback: Feedback
    shows_error: bool
    """Whether it shows a fault."""


@dataclass(frozen=True)
class FeedbackEnvironment:
    """States the problem in round 1; from then on gives feedback on the last answer's code.

    The dialogue is finished when the code passes its whole suite, even if a part of the suite is shown; after `turns` rounds of
    feedback; and when there is nothing to say, because no error is shown and no speaker knows more.
    """

    opening: str
    turns: int
    """Rounds of feedback, 0 and up; 0 ends the dialogue after the first answer."""
    code_of: Callable[[str], str]
    """The code of an answer."""
    observe: Callable[[ProgramVerdict], Observation]
    compose: Callable[[str, Feedback], str]
    """(code, all feedback on it) -> the round's message."""
    speaker: SimulatedFeedback | FixedFeedback | None = None
    speaks_without_error: bool = False
    """Whether the speaker can name a fault where no error is shown."""
    role: Role = Role.USER

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """The problem, or feedback on the answer of the round before.

        Raises:
            ModelUnavailable: the simulated speaker gave no usable answer.
            ValueError: the last answer was not run.
        """
        if transcript.turn == 1:
            return Step(turn=1, role=self.role, content=self.opening)
        answer = transcript.steps[-1]
        if answer.program is None:
            raise ValueError(
                f"the answer of round {answer.turn} of {transcript.dialog.dialog_id} was not run: no feedback on it"
            )
        if answer.program.outcome is Outcome.PASSED or transcript.turn > self.turns + 1:
            return Stop(StopReason.FINISHED)
        seen = self.observe(answer.program)
        if not seen.shows_error and not (self.speaker and self.speaks_without_error):
            return Stop(StopReason.FINISHED)
        code = self.code_of(answer.content)
        if self.speaker is None:
            return self._step(transcript.turn, code, seen.feedback)
        remark = await self.speaker.remark(transcript, code, seen.feedback)
        feedback = seen.feedback.model_copy(update={"verbal": remark.text})
        return _paid(self._step(transcript.turn, code, feedback), remark)

    def _step(self, turn: int, code: str, feedback: Feedback) -> Step:
        return Step(
            turn=turn, role=self.role, content=self.compose(code, feedback), feedback=feedback
        )


def _paid(step: Step, remark: Remark) -> Step:
    """The step with what the simulated speaker cost."""
    return step.model_copy(
        update={
            "input_tokens": remark.spent.input_tokens,
            "output_tokens": remark.spent.output_tokens,
            "latency_s": remark.spent.latency_s,
            "n_calls": remark.spent.n_calls,
            "finish_reason": remark.finish_reason,
            "served_model": remark.served_model,
            "adapted": remark.adapted,
            "reasoning_tokens": remark.spent.reasoning_tokens,
        }
    )
