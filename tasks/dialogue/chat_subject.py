"""A chat model in the subject's seat, with tools or without. A HistoryPolicy says how much of the past it sees."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from schemas.dialog import HistoryPolicy, Role
from schemas.episode import TOO_LONG, Step, StepKind, StopReason
from schemas.run import Sampling
from tasks.dialogue.answered import answered_step
from tasks.dialogue.seats import Stop
from tasks.dialogue.tools import Tool, observe
from tasks.dialogue.transcript import Transcript
from tasks.language.chat_model import ChatModel, ChatRequest, Completion, Message

REFUSALS = MappingProxyType(
    {
        "context_length": (StopReason.SUBJECT_ERROR, TOO_LONG),
        "content_filter": (
            StopReason.REFUSED,
            "the endpoint's content filter let no answer through",
        ),
    }
)
"""Finish reason of an empty answer -> how the dialogue ends, and why there is no answer."""


def refusal_of(completion: Completion, model: ChatModel, transcript: Transcript) -> Stop | None:
    """Return the end of a dialogue whose prompt was refused; None where there is an answer, an empty one too."""
    refusal = (
        None
        if completion.content or completion.calls
        else REFUSALS.get(completion.finish_reason or "")
    )
    if refusal is None:
        return None
    stop_reason, why = refusal
    place = f"round {transcript.turn} of {transcript.problem.problem_id}"
    return Stop(stop_reason, f"{model.identity.label} refused {place}: {why}", completion.n_calls)


@dataclass(frozen=True)
class ChatSubject:
    """Asks a chat model for each answer. The tools that an answer calls are run one by one, before the model is asked again."""

    model: ChatModel
    sampling: Sampling
    history: HistoryPolicy = HistoryPolicy.ON_POLICY
    role: Role = Role.ASSISTANT
    tools: tuple[Tool, ...] = ()

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """The model's answer in round `transcript.turn`, or what came of a tool that it has called.

        Raises: as `answer`.
        """
        if pending := transcript.pending_calls:
            return await observe(self.tools, pending[0], transcript.turn)
        return await self.answer(transcript, messages_of(transcript, self.history))

    async def answer(
        self,
        transcript: Transcript,
        messages: tuple[Message, ...],
        kind: StepKind = StepKind.MESSAGE,
    ) -> Step | Stop:
        """The model's answer to these messages, as a step of this kind; a tool call where it calls tools.

        The dialogue ends as the subject's failure where the conversation is too long for the model, and as refused where a
        content filter lets no answer through. This is neither infra nor an empty program. A cut answer is judged as it is.

        Raises:
            ModelUnavailable: no usable answer after all retries.
            AnswerMissing: a recording without this answer.
            ValueError: the transcript lacks what the history policy shows.
        """
        completion = await self.model.complete(
            ChatRequest(
                messages=messages,
                sampling=self.sampling,
                seed=transcript.seed,
                problem_id=transcript.problem.problem_id,
                turn=transcript.turn,
                sample=transcript.sample,
                dialog_id=transcript.dialog.dialog_id,
                tools=tuple(tool.spec for tool in self.tools),
                call_index=transcript.call_index,
            )
        )
        return refusal_of(completion, self.model, transcript) or answered_step(
            transcript, completion, kind
        )


def messages_of(transcript: Transcript, history: HistoryPolicy) -> tuple[Message, ...]:
    """The messages that ask for the answer of round `transcript.turn`: the dialog's system turns, its context, what was said.

    Raises:
        ValueError: the round has no user message yet, or the history lacks an answer that the policy shows.
    """
    spoken = {(step.turn, step.role): step.content for step in transcript.messages}
    if (transcript.turn, Role.USER) not in spoken:
        raise ValueError(
            f"round {transcript.turn} of {transcript.dialog.dialog_id} has no user message to answer"
        )
    system = tuple(
        Message(Role.SYSTEM, turn.content or "")
        for turn in transcript.dialog.turns
        if turn.role is Role.SYSTEM and turn.content
    )
    taken = () if history is HistoryPolicy.ON_POLICY else _rendered(transcript.taken)
    shows_past = history is not HistoryPolicy.LAST_CODE_AND_FEEDBACK
    earlier = (
        tuple(Message(turn.role, turn.content or "") for turn in transcript.context)
        if shows_past
        else ()
    )
    return system + earlier + RENDERERS[history](transcript, spoken) + taken


def _rendered(steps: Iterable[Step]) -> tuple[Message, ...]:
    """Messages, tool calls and observations; an artifact is for those who asked for it."""
    return tuple(
        Message(s.role, s.content, s.calls, s.call_id)
        for s in steps
        if s.kind is not StepKind.ARTIFACT
    )


Spoken = Mapping[tuple[int, Role], str]


def _on_policy(transcript: Transcript, spoken: Spoken) -> tuple[Message, ...]:
    return _rendered(transcript.steps)


def _reference(transcript: Transcript, spoken: Spoken) -> tuple[Message, ...]:
    answers = (turn for turn in transcript.dialog.turns if turn.role is Role.ASSISTANT)
    golden = {
        turn.turn: turn.content if turn.reference is None else turn.reference for turn in answers
    }
    messages: list[Message] = []
    for turn in range(1, transcript.turn):
        answer = golden.get(turn)
        if answer is None:
            raise ValueError(
                f"{transcript.dialog.dialog_id} has no reference answer of round {turn} for history=reference"
            )
        messages += [Message(Role.USER, spoken[turn, Role.USER]), Message(Role.ASSISTANT, answer)]
    return (*messages, Message(Role.USER, spoken[transcript.turn, Role.USER]))


def _upstream_v0(transcript: Transcript, spoken: Spoken) -> tuple[Message, ...]:
    """All earlier prompts as one message, the answer to the first, then the new prompt."""
    new = Message(Role.USER, spoken[transcript.turn, Role.USER])
    if transcript.turn == 1:
        return (new,)
    earlier = "\n".join(spoken[turn, Role.USER] for turn in range(1, transcript.turn))
    return Message(Role.USER, earlier), Message(Role.ASSISTANT, spoken[1, Role.ASSISTANT]), new


def _first_round(transcript: Transcript, spoken: Spoken) -> tuple[Message, ...]:
    """The first round, then the new message, as if nothing had been said between them."""
    new = Message(Role.USER, spoken[transcript.turn, Role.USER])
    if transcript.turn == 1:
        return (new,)
    return (
        Message(Role.USER, spoken[1, Role.USER]),
        Message(Role.ASSISTANT, spoken[1, Role.ASSISTANT]),
        new,
    )


def _last_code_and_feedback(transcript: Transcript, spoken: Spoken) -> tuple[Message, ...]:
    """The round's message alone: it holds problem, previous code and feedback."""
    return (Message(Role.USER, spoken[transcript.turn, Role.USER]),)


RENDERERS: Mapping[HistoryPolicy, Callable[[Transcript, Spoken], tuple[Message, ...]]] = (
    MappingProxyType(
        {
            HistoryPolicy.ON_POLICY: _on_policy,
            HistoryPolicy.REFERENCE: _reference,
            HistoryPolicy.LAST_CODE_AND_FEEDBACK: _last_code_and_feedback,
            HistoryPolicy.FIRST_ROUND: _first_round,
            HistoryPolicy.UPSTREAM_V0: _upstream_v0,
        }
    )
)
