"""User who answers code with feedback of the compiler, the tests and a simulated person."""

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
    """Visible part of a program's run, without verbal feedback."""

    feedback: Feedback
    shows_error: bool
    """True if the visible part contains an error."""


@dataclass(frozen=True)
class FeedbackEnvironment:
    """User who states the problem in round 1 and then gives feedback on the last answer's code.

    The dialogue is finished in these cases:

    - The code passes its complete suite, even if only a part of the suite is visible.
    - `turns` rounds of feedback are over.
    - No error is visible and no speaker has more information.
    """

    opening: str
    turns: int
    """Number of feedback rounds. 0 ends the dialogue after the first answer."""
    code_of: Callable[[str], str]
    """Returns the code of an answer."""
    observe: Callable[[ProgramVerdict], Observation]
    compose: Callable[[str, Feedback], str]
    """Returns the round's message from (code, all feedback on it)."""
    speaker: SimulatedFeedback | FixedFeedback | None = None
    speaks_without_error: bool = False
    """True if the speaker can find a fault when no error is visible."""
    role: Role = Role.USER

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the problem, or feedback on the previous round's answer.

        Raises:
            ModelUnavailable: The simulated speaker gave no usable answer.
            ValueError: The program of the last answer was not run.
        """
        if transcript.turn == 1:
            return Step(turn=1, role=self.role, content=self.opening)
        answer = transcript.steps[-1]
        if answer.program is None:
            raise ValueError(
                f"the program of round {answer.turn} of {transcript.dialog.dialog_id} was not run,"
                " so there is no feedback"
            )
        if answer.program.outcome is Outcome.PASSED or transcript.turn > self.turns + 1:
            return Stop(StopReason.FINISHED)
        observation = self.observe(answer.program)
        if not observation.shows_error and not (self.speaker and self.speaks_without_error):
            return Stop(StopReason.FINISHED)
        code = self.code_of(answer.content)
        if self.speaker is None:
            return self._step(transcript.turn, code, observation.feedback)
        remark = await self.speaker.remark(transcript, code, observation.feedback)
        feedback = observation.feedback.model_copy(update={"verbal": remark.text})
        return _with_cost(self._step(transcript.turn, code, feedback), remark)

    def _step(self, turn: int, code: str, feedback: Feedback) -> Step:
        return Step(
            turn=turn, role=self.role, content=self.compose(code, feedback), feedback=feedback
        )


def _with_cost(step: Step, remark: Remark) -> Step:
    """Return the step with the cost of the simulated speaker."""
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
