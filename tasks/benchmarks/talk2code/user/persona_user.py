"""Simulated user: a model that plays a persona, knows the reference, and hides its code."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from schemas.dialog import Role
from schemas.episode import Step, StopReason
from schemas.errors import AnswerMissing, ModelUnavailable
from schemas.run import Sampling
from tasks.benchmarks.talk2code.user.hidden_code import HiddenCode
from tasks.dialogue.engine import Stop, Transcript
from tasks.language.chat_model import (
    ChatModel,
    Completion,
    Message,
    Messages,
    Unreadable,
    ask_until_read,
    spent,
)
from tasks.language.prompt import fill

TRIES = 3
WORDINGS, LEAKS = "wordings", "wordings_with_code"
"""Labels of a simulated reply: the number of drafts, and how many of them disclosed the code."""
_SHOWN_AGAIN = 2000
_NAME = "User:"


@dataclass(frozen=True)
class PersonaUser:
    """Simulated user who sends an opening, then replies until the assistant delivers.

    The dialogue also ends when the assistant has used all its replies. A draft that discloses the
    code is rejected, and the model writes another. After `TRIES` rejected drafts, the last one is
    sent without the code. If nothing remains, `refusal` is sent.
    """

    opening: str
    model: ChatModel
    sampling: Sampling
    prompt: Callable[[Transcript], str]
    """Function that returns the prompt for the next reply."""
    retry_prompt: str
    """Prompt for another draft. Placeholder: reason."""
    refusal: str
    hidden_code: HiddenCode
    is_delivery: Callable[[str], bool]
    """Return True if the assistant's answer delivers the program."""
    turns: int
    """Maximum number of the assistant's replies, 1 and up."""
    role: Role = Role.USER

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the user's message of round `transcript.turn`, or the end of the dialogue.

        Raises:
            ModelUnavailable: the simulator gave no usable reply. The model under test is not to
                blame.
        """
        if transcript.turn == 1:
            return Step(turn=1, role=self.role, content=self.opening)
        if self.is_delivery(transcript.messages[-1].content):
            return Stop(StopReason.FINISHED)
        if transcript.turn > self.turns:
            return Stop(StopReason.TURN_LIMIT)
        return await self._reply(transcript)

    async def _reply(self, transcript: Transcript) -> Step:
        first = (Message(Role.USER, self.prompt(transcript)),)
        earlier = transcript.texts(Role.USER)
        request = transcript.request(first, self.sampling)

        def repair_messages(answer: str, reason: str) -> Messages:
            draft = Message(Role.ASSISTANT, answer[:_SHOWN_AGAIN] or "-")
            return (*first, draft, Message(Role.USER, fill(self.retry_prompt, reason=reason)))

        try:
            result = await ask_until_read(
                self.model,
                request,
                repair_messages,
                partial(self._read_reply, earlier),
                tries=TRIES,
            )
        except AnswerMissing as missing:
            raise ModelUnavailable(f"simulator: {missing}", permanent=True) from missing
        text = (
            result.value
            if result.value is not None
            else self._without_code(transcript, result.answers)
        )
        cost, last = spent(result.answers), result.answers[-1]
        n_leaks = sum(
            self.hidden_code.fault(answer.content, earlier) is not None for answer in result.answers
        )
        return Step(
            turn=transcript.turn,
            role=self.role,
            content=text,
            input_tokens=cost.input_tokens,
            output_tokens=cost.output_tokens,
            latency_s=cost.latency_s,
            n_calls=cost.n_calls,
            finish_reason=last.finish_reason,
            served_model=last.served_model,
            adapted=last.adapted,
            reasoning_tokens=cost.reasoning_tokens,
            labels=((WORDINGS, str(len(result.answers))), (LEAKS, str(n_leaks))),
        )

    def _read_reply(self, earlier: Sequence[str], answer: str) -> str:
        text = answer.strip().removeprefix(_NAME).strip()
        if not text:
            raise Unreadable("it is empty")
        if fault := self.hidden_code.fault(text, earlier):
            raise Unreadable(fault)
        return text

    def _without_code(self, transcript: Transcript, answers: tuple[Completion, ...]) -> str:
        """Return the last rejected draft without its code.

        Raises ModelUnavailable if all drafts are empty.
        """
        wordings = [answer.content for answer in answers if answer.content.strip()]
        if not wordings:
            raise ModelUnavailable(
                f"simulator {self.model.identity.label}: {len(answers)} replies in round "
                f"{transcript.turn} of "
                f"{transcript.problem.problem_id} are empty (finish reason of the last:"
                f" {answers[-1].finish_reason or 'none'}). Name a simulator with a longer context",
                n_calls=spent(answers).n_calls,
            )
        return (
            self.hidden_code.without_code(wordings[-1], transcript.texts(Role.USER)) or self.refusal
        )
