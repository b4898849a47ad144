"""The simulated user: a model that plays a persona, knows task and reference, and never hands the code over."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from schemas.dialog import Role
from schemas.episode import Step, StopReason
from schemas.errors import AnswerMissing, ModelUnavailable
from schemas.run import Sampling
from tasks.benchmarks.talk2code.user.hidden_code import HiddenCode
from tasks.dialogue.seats import Stop
from tasks.dialogue.transcript import Transcript
from tasks.language.asking import Messages, Unreadable, ask_until_read
from tasks.language.chat_model import ChatModel, ChatRequest, Completion, Message
from tasks.language.prompt import fill
from tasks.language.spent import spent

TRIES = 3
WORDINGS, LEAKS = "wordings", "wordings_with_code"
"""Labels of a simulated reply: how often it was asked for, and how many of these wordings handed the code over."""
_SHOWN_AGAIN = 2000
_NAME = "User:"


@dataclass(frozen=True)
class PersonaUser:
    """Opens with a given text, then answers as the persona until the assistant delivers, or has had its replies.

    A reply that hands the code over is asked for again. Where no wording does without, the last one is said without the code;
    where that leaves nothing, `declined` is said.
    """

    opening: str
    model: ChatModel
    sampling: Sampling
    prompt: Callable[[Transcript], str]
    """The whole request for the next reply."""
    again: str
    """Asks for another wording. Placeholder: reason."""
    declined: str
    hidden: HiddenCode
    delivers: Callable[[str], bool]
    """Whether an answer of the assistant is the delivery."""
    turns: int
    """Replies that the assistant has, 1 and up."""
    role: Role = Role.USER

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """What the user says in round `transcript.turn`; the end once the code is there or the assistant's replies are used up.

        Raises:
            ModelUnavailable: the simulator gave no usable reply, which is no failure of the subject's.
        """
        if transcript.turn == 1:
            return Step(turn=1, role=self.role, content=self.opening)
        if self.delivers(transcript.messages[-1].content):
            return Stop(StopReason.FINISHED)
        if transcript.turn > self.turns:
            return Stop(StopReason.TURN_LIMIT)
        return await self._reply(transcript)

    async def _reply(self, transcript: Transcript) -> Step:
        first = (Message(Role.USER, self.prompt(transcript)),)
        earlier = transcript.texts(Role.USER)
        request = ChatRequest(
            messages=first,
            sampling=self.sampling,
            seed=transcript.seed,
            problem_id=transcript.problem.problem_id,
            turn=transcript.turn,
            sample=transcript.sample,
            dialog_id=transcript.dialog.dialog_id,
        )

        def again(answer: str, reason: str) -> Messages:
            said = Message(Role.ASSISTANT, answer[:_SHOWN_AGAIN] or "-")
            return (*first, said, Message(Role.USER, fill(self.again, reason=reason)))

        try:
            asked = await ask_until_read(
                self.model, request, again, partial(self._said, earlier), tries=TRIES
            )
        except AnswerMissing as missing:
            raise ModelUnavailable(f"simulator: {missing}", permanent=True) from missing
        text = asked.value if asked.value is not None else self._withheld(transcript, asked.answers)
        cost, last = spent(asked.answers), asked.answers[-1]
        n_leaks = sum(
            self.hidden.fault(answer.content, earlier) is not None for answer in asked.answers
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
            labels=((WORDINGS, str(len(asked.answers))), (LEAKS, str(n_leaks))),
        )

    def _said(self, earlier: Sequence[str], answer: str) -> str:
        text = answer.strip().removeprefix(_NAME).strip()
        if not text:
            raise Unreadable("it is empty")
        if fault := self.hidden.fault(text, earlier):
            raise Unreadable(fault)
        return text

    def _withheld(self, transcript: Transcript, answers: tuple[Completion, ...]) -> str:
        """What is left of the last wording that handed code over. Raises ModelUnavailable where nothing was said at all."""
        wordings = [answer.content for answer in answers if answer.content.strip()]
        if not wordings:
            raise ModelUnavailable(
                f"simulator {self.model.identity.label}: {len(answers)} replies in round {transcript.turn} of "
                f"{transcript.problem.problem_id} are empty (the last ended with {answers[-1].finish_reason or 'no reason told'}"
                "); name a simulator with a longer context",
                n_calls=spent(answers).n_calls,
            )
        return self.hidden.withheld(wordings[-1], transcript.texts(Role.USER)) or self.declined
