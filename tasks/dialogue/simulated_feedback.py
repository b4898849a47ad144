"""Feedback on code: the user who gives it, and a model that writes its verbal part.

The model writes its reasoning first. Only the field with the feedback is passed on.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from schemas.dialog import Role
from schemas.episode import Feedback, Step, StopReason
from schemas.errors import ModelUnavailable
from schemas.run import Sampling
from schemas.verdict import Outcome, ProgramVerdict
from tasks.dialogue.engine import Stop, Transcript
from tasks.language.chat_model import (
    ChatModel,
    ChatRequest,
    Message,
    Unreadable,
    ask_simulator,
)

_LABEL = r"^[ \t>*_#-]*{name}[ \t*_]*:[ \t*_]*"
_FEEDBACK = re.compile(_LABEL.format(name="(?:user )?feedback"), re.IGNORECASE | re.MULTILINE)
_REASONING = re.compile(_LABEL.format(name="reasoning"), re.IGNORECASE | re.MULTILINE)
_REASONING_KEPT = 2000
"""Maximum characters of an answer without the field `Feedback:` that the next request repeats.

An endless repetition would fill the context.
"""
_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Remark:
    """Verbal feedback on a piece of code, and the cost of the model that wrote it."""

    text: str
    cost: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields of `Step` about the requests."""


@dataclass(frozen=True, slots=True)
class FeedbackPrompt:
    """Request with one example of an answer in the fields `Reasoning:` and `Feedback:`."""

    example: str
    """Example request: description of the user, what the user sees, and the requested fields."""
    example_reasoning: str
    example_feedback: str
    case: str
    """Actual request: what the user sees now, and the requested fields."""
    reminder: str
    """Text that requests only the field `Feedback:`."""

    def first(self) -> tuple[Message, ...]:
        """Return the messages that request the fields `Reasoning:` and `Feedback:`."""
        answer = f"Reasoning: {self.example_reasoning}\nFeedback: {self.example_feedback}"
        return _alternate(self.example, answer, self.case)

    def again(self, answer: str) -> tuple[Message, ...]:
        """Return the messages that request only `Feedback:`.

        The earlier answer, which lacked this field, counts as reasoning.
        """
        reasoning = f"Reasoning: {self.example_reasoning}"
        feedback = f"Feedback: {self.example_feedback}"
        return _alternate(
            self.example,
            reasoning,
            self.reminder,
            feedback,
            self.case,
            answer[:_REASONING_KEPT] or "-",
            self.reminder,
        )


def _alternate(*texts: str) -> tuple[Message, ...]:
    """Return texts as messages of user and assistant in turn."""
    roles = (Role.USER, Role.ASSISTANT)
    return tuple(Message(roles[n % 2], text) for n, text in enumerate(texts))


@dataclass(frozen=True)
class FixedFeedback:
    """Feedback that is the same on all code. It costs nothing."""

    text: str

    async def remark(self, transcript: Transcript, code: str, feedback: Feedback) -> Remark:
        """Return the fixed text."""
        return Remark(self.text)


@dataclass(frozen=True)
class SimulatedFeedback:
    """Model that gives a user's feedback on code. It sees only `prompt`."""

    model: ChatModel
    sampling: Sampling
    prompt: Callable[[str, Feedback], FeedbackPrompt]
    """Returns the request from (code, other feedback on it)."""
    writes_code: bool = True
    """If False, feedback ends at the first fenced block."""
    tries: int = 3

    async def remark(self, transcript: Transcript, code: str, feedback: Feedback) -> Remark:
        """Return the feedback field of the model's answer.

        Raises:
            ModelUnavailable: No answer, or `tries` answers without the field. Other parts of an
                answer are never passed on.
        """
        prompt = self.prompt(code, feedback)
        request = ChatRequest(
            messages=prompt.first(),
            sampling=self.sampling,
            seed=transcript.seed,
            problem_id=transcript.problem.problem_id,
            turn=transcript.turn,
            sample=transcript.sample,
        )
        result = await ask_simulator(
            self.model,
            request,
            lambda answer, _: prompt.again(answer),
            self._feedback_of,
            tries=self.tries,
        )
        if result.value is not None:
            return Remark(result.value, result.cost)
        finish_reason = result.cost["finish_reason"] or "unknown"
        raise ModelUnavailable(
            f"simulator {self.model.identity.label}: none of {len(result.answers)} answers in round"
            f" {transcript.turn} of {transcript.problem.problem_id} has exactly one field"
            f" 'Feedback:' (finish reason of the last: {finish_reason}). Choose a"
            " simulator that follows formats or has a longer context",
            n_calls=result.cost["n_calls"],
        )

    def _feedback_of(self, answer: str) -> str:
        """Return the feedback in an answer. Raise Unreadable if there is none."""
        field = answer_field(answer) or ""
        text = field if self.writes_code else _FENCE.split(field, maxsplit=1)[0].strip()
        if not text:
            raise Unreadable("it has no field 'Feedback:' of its own")
        return text


def answer_field(answer: str) -> str | None:
    """Return the text after the only label `Feedback:`, up to a label `Reasoning:`.

    None if the label is missing, occurs twice, or has no text. The first of two labels may be a
    draft within the reasoning.
    """
    labels = list(_FEEDBACK.finditer(answer))
    if len(labels) != 1:
        return None
    field = answer[labels[0].end() :]
    after = _REASONING.search(field)
    return (field[: after.start()] if after else field).strip() or None


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

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the problem, or feedback on the previous round's answer.

        Raises:
            ModelUnavailable: The simulated speaker gave no usable answer.
            ValueError: The program of the last answer was not run.
        """
        if transcript.turn == 1:
            return Step(turn=1, role=Role.USER, content=self.opening)
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
        return self._step(transcript.turn, code, feedback).model_copy(update=remark.cost)

    def _step(self, turn: int, code: str, feedback: Feedback) -> Step:
        return Step(
            turn=turn, role=Role.USER, content=self.compose(code, feedback), feedback=feedback
        )
