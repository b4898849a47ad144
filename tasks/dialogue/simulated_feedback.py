"""Verbal feedback by a model that plays a user. It reasons first; only its answer field is passed on."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from schemas.dialog import Role
from schemas.errors import AnswerMissing, ModelUnavailable
from schemas.feedback import Feedback
from schemas.run import Sampling
from tasks.dialogue.transcript import Transcript
from tasks.language.asking import Unreadable, ask_until_read
from tasks.language.chat_model import ChatModel, ChatRequest, Message
from tasks.language.spent import Spent, spent

_LABEL = r"^[ \t>*_#-]*{name}[ \t*_]*:[ \t*_]*"
_FEEDBACK = re.compile(_LABEL.format(name="(?:user )?feedback"), re.IGNORECASE | re.MULTILINE)
_REASONING = re.compile(_LABEL.format(name="reasoning"), re.IGNORECASE | re.MULTILINE)
_REASONING_KEPT = 2000
"""Characters shown again of an answer without the field, so that an endless repetition fills no context."""
_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Remark:
    """The user's words about a piece of code, and the cost of the model that plays them."""

    text: str
    spent: Spent
    finish_reason: str | None
    served_model: str | None
    adapted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FeedbackPrompt:
    """A request with one example of how it is answered: in the fields `Reasoning:` and `Feedback:`."""

    example: str
    """Who the user is, an example of what they see, and the fields that are asked for."""
    example_reasoning: str
    example_feedback: str
    case: str
    """The user's present view, and the fields that are asked for."""
    reminder: str
    """Text that asks for the field `Feedback:` alone."""

    def first(self) -> tuple[Message, ...]:
        """Asks for both fields at once."""
        answer = f"Reasoning: {self.example_reasoning}\nFeedback: {self.example_feedback}"
        return _talk(self.example, answer, self.case)

    def again(self, answer: str) -> tuple[Message, ...]:
        """Takes an answer without the field as reasoning, and asks for the field alone."""
        reasoning, feedback = (
            f"Reasoning: {self.example_reasoning}",
            f"Feedback: {self.example_feedback}",
        )
        return _talk(
            self.example,
            reasoning,
            self.reminder,
            feedback,
            self.case,
            answer[:_REASONING_KEPT] or "-",
            self.reminder,
        )


def _talk(*texts: str) -> tuple[Message, ...]:
    """Messages of a user and an assistant in turn."""
    roles = (Role.USER, Role.ASSISTANT)
    return tuple(Message(roles[n % 2], text) for n, text in enumerate(texts))


@dataclass(frozen=True)
class FixedFeedback:
    """Feedback that is the same on every piece of code. It costs nothing."""

    text: str

    async def remark(self, transcript: Transcript, code: str, seen: Feedback) -> Remark:
        """Return the text."""
        return Remark(self.text, spent(()), None, None)


@dataclass(frozen=True)
class SimulatedFeedback:
    """Asks a model for a user's feedback on a piece of code. The model knows its `prompt` and nothing else."""

    model: ChatModel
    sampling: Sampling
    prompt: Callable[[str, Feedback], FeedbackPrompt]
    """(code, the other feedback on it) -> the request."""
    writes_code: bool = True
    """False: the feedback ends where a fenced block begins."""
    tries: int = 3

    async def remark(self, transcript: Transcript, code: str, seen: Feedback) -> Remark:
        """The answer field.

        Raises:
            ModelUnavailable: no answer, or `tries` answers without the field. No other part of an answer is passed on.
        """
        prompt = self.prompt(code, seen)
        request = ChatRequest(
            messages=prompt.first(),
            sampling=self.sampling,
            seed=transcript.seed,
            problem_id=transcript.problem.problem_id,
            turn=transcript.turn,
            sample=transcript.sample,
        )
        try:
            asked = await ask_until_read(
                self.model,
                request,
                lambda answer, _: prompt.again(answer),
                self._said,
                tries=self.tries,
            )
        except AnswerMissing as missing:  # the subject has no part in it
            raise ModelUnavailable(f"simulator: {missing}", permanent=True) from missing
        last = asked.answers[-1]
        if asked.value is not None:
            return Remark(
                asked.value,
                spent(asked.answers),
                last.finish_reason,
                last.served_model,
                last.adapted,
            )
        raise ModelUnavailable(
            f"simulator {self.model.identity.label}: none of {len(asked.answers)} answers in round {transcript.turn} of "
            f"{transcript.problem.problem_id} has one field 'Feedback:' (the last ended with "
            f"{last.finish_reason or 'no reason told'}); name a simulator that keeps to formats, or has a longer context",
            n_calls=spent(asked.answers).n_calls,
        )

    def _said(self, answer: str) -> str:
        """The words that are passed on. Raises Unreadable where there are none."""
        field = answer_field(answer) or ""
        said = field if self.writes_code else _FENCE.split(field, maxsplit=1)[0].strip()
        if not said:
            raise Unreadable("it has no field 'Feedback:' of its own")
        return said


def answer_field(answer: str) -> str | None:
    """The text behind the only label `Feedback:`, up to a label `Reasoning:`.

    None where the label is missing, stands there twice (the first may be a draft within the reasoning), or nothing follows it.
    """
    labels = list(_FEEDBACK.finditer(answer))
    if len(labels) != 1:
        return None
    field = answer[labels[0].end() :]
    after = _REASONING.search(field)
    return (field[: after.start()] if after else field).strip() or None
