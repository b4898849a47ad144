"""A chat model in the subject's seat. A HistoryPolicy says how much of the past it sees."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from schemas.dialog import HistoryPolicy, Role
from schemas.episode import Step, StopReason
from schemas.run import Sampling
from tasks.dialogue.seats import Stop
from tasks.dialogue.transcript import Transcript
from tasks.language.chat_model import ChatModel, ChatRequest, Completion, Message

REFUSALS = MappingProxyType(
    {
        "context_length": "the conversation is longer than its context",
        "content_filter": "the endpoint's content filter let no answer through",
    }
)
"""Finish reason of an empty answer -> why there is none."""


@dataclass(frozen=True)
class ChatSubject:
    """Asks a chat model for each answer."""

    model: ChatModel
    sampling: Sampling
    history: HistoryPolicy = HistoryPolicy.ON_POLICY
    role: Role = Role.ASSISTANT

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """The model's answer in round `transcript.turn`.

        The dialogue ends as the subject's failure where the conversation is too long for the model, or a content filter lets no
        answer through. This is neither infra nor an empty program that fails its tests. A cut answer is judged as it is.

        Raises:
            ModelUnavailable: no usable answer after all retries.
            AnswerMissing: a recording without this answer.
            ValueError: the transcript lacks what the history policy shows.
        """
        completion = await self.model.complete(
            ChatRequest(
                messages=messages_of(transcript, self.history),
                sampling=self.sampling,
                seed=transcript.seed,
                problem_id=transcript.problem.problem_id,
                turn=transcript.turn,
                sample=transcript.sample,
                dialog_id=transcript.dialog.dialog_id,
            )
        )
        refusal = None if completion.content else REFUSALS.get(completion.finish_reason or "")
        if refusal is not None:
            return Stop(
                StopReason.SUBJECT_ERROR,
                f"{self.model.identity.label} refused round {transcript.turn} of {transcript.problem.problem_id}: {refusal}",
                completion.n_calls,
            )
        return _step(transcript.turn, completion)


def messages_of(transcript: Transcript, history: HistoryPolicy) -> tuple[Message, ...]:
    """The messages that ask for the answer of round `transcript.turn`; the dialog's system turns come first.

    Raises:
        ValueError: the round has no user message yet, or the history lacks an answer that the policy shows.
    """
    spoken = {(step.turn, step.role): step.content for step in transcript.steps}
    if (transcript.turn, Role.USER) not in spoken:
        raise ValueError(f"round {transcript.turn} of {transcript.dialog.dialog_id} has no user message to answer")
    system = tuple(
        Message(Role.SYSTEM, turn.content or "") for turn in transcript.dialog.turns if turn.role is Role.SYSTEM and turn.content
    )
    return system + RENDERERS[history](transcript, spoken)


Spoken = Mapping[tuple[int, Role], str]


def _on_policy(transcript: Transcript, spoken: Spoken) -> tuple[Message, ...]:
    return tuple(Message(step.role, step.content) for step in transcript.steps)


def _reference(transcript: Transcript, spoken: Spoken) -> tuple[Message, ...]:
    golden = {turn.turn: turn.reference for turn in transcript.dialog.turns if turn.role is Role.ASSISTANT}
    messages: list[Message] = []
    for turn in range(1, transcript.turn):
        answer = golden.get(turn)
        if answer is None:
            raise ValueError(f"{transcript.dialog.dialog_id} has no reference answer of round {turn} for history=reference")
        messages += [Message(Role.USER, spoken[turn, Role.USER]), Message(Role.ASSISTANT, answer)]
    return (*messages, Message(Role.USER, spoken[transcript.turn, Role.USER]))


def _upstream_v0(transcript: Transcript, spoken: Spoken) -> tuple[Message, ...]:
    """All earlier prompts as one message, the answer to the first, then the new prompt."""
    new = Message(Role.USER, spoken[transcript.turn, Role.USER])
    if transcript.turn == 1:
        return (new,)
    earlier = "\n".join(spoken[turn, Role.USER] for turn in range(1, transcript.turn))
    return Message(Role.USER, earlier), Message(Role.ASSISTANT, spoken[1, Role.ASSISTANT]), new


def _last_code_and_feedback(transcript: Transcript, spoken: Spoken) -> tuple[Message, ...]:
    """The round's message alone: it holds problem, previous code and feedback."""
    return (Message(Role.USER, spoken[transcript.turn, Role.USER]),)


RENDERERS: Mapping[HistoryPolicy, Callable[[Transcript, Spoken], tuple[Message, ...]]] = MappingProxyType(
    {
        HistoryPolicy.ON_POLICY: _on_policy,
        HistoryPolicy.REFERENCE: _reference,
        HistoryPolicy.LAST_CODE_AND_FEEDBACK: _last_code_and_feedback,
        HistoryPolicy.UPSTREAM_V0: _upstream_v0,
    }
)


def _step(turn: int, completion: Completion) -> Step:
    return Step(
        turn=turn,
        role=Role.ASSISTANT,
        content=completion.content,
        input_tokens=completion.input_tokens,
        output_tokens=completion.output_tokens,
        latency_s=completion.latency_s,
        finish_reason=completion.finish_reason,
        served_model=completion.served_model,
        n_calls=completion.n_calls,
    )
