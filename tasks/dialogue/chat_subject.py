"""Chat model as the subject of a dialogue, with or without tools, and a user with a script.

A HistoryPolicy defines the visible past.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from schemas.dialog import Dialog, HistoryPolicy, Role
from schemas.episode import SCRIPTED, TOO_LONG, Step, StepKind, StopReason, ToolCall
from schemas.run import Sampling
from tasks.dialogue.engine import Participant, Stop, Transcript
from tasks.dialogue.tools import Tool, observe
from tasks.language.chat_model import ChatModel, Completion, Message, message_of

REFUSALS = MappingProxyType(
    {
        "context_length": (StopReason.SUBJECT_ERROR, TOO_LONG),
        "content_filter": (
            StopReason.REFUSED,
            "the endpoint's content filter blocked the answer",
        ),
    }
)
"""Finish reason of an empty answer -> stop reason of the dialogue, and the explanation."""


def refusal_of(completion: Completion, model: ChatModel, transcript: Transcript) -> Stop | None:
    """Return the end of a dialogue whose prompt was refused, or None if the model answered.

    An empty answer with another finish reason counts as an answer.
    """
    refusal = (
        None
        if completion.content or completion.calls
        else REFUSALS.get(completion.finish_reason or "")
    )
    if refusal is None:
        return None
    stop_reason, why = refusal
    where = f"round {transcript.turn} of {transcript.problem.problem_id}"
    unsent = answer_step(transcript, completion, StepKind.ARTIFACT)
    return Stop(stop_reason, f"{model.identity.label} refused {where}: {why}", unsent)


MOST_WITHOUT_TOOLS = 3
"""Answers with tool calls in one round after which a dialogue without tools ends.

After each of them, the model is told that there are no tools.
"""


@dataclass(frozen=True)
class ChatSubject:
    """Subject whose messages are answers of a chat model.

    The tools that an answer calls run one by one before the next request.
    """

    model: ChatModel
    sampling: Sampling
    history: HistoryPolicy = HistoryPolicy.ON_POLICY
    tools: tuple[Tool, ...] = ()

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the answer of round `transcript.turn`, or the result of a pending tool call.

        Raises the errors of `answer`.
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
        """Return the model's answer to these messages as a step, or the end of the dialogue.

        If the conversation is too long for the model, the dialogue ends as the subject's failure.
        If a content filter blocks the answer, it ends as refused. Neither is an infrastructure
        fault or an empty program. A truncated answer is judged as it is.

        Args:
            transcript: Transcript before the answer.
            messages: Messages of the request.
            kind: Kind of the step if the answer has no tool calls.

        Raises:
            ModelUnavailable: No usable answer after all retries.
            AnswerMissing: A recording does not have this answer.
            ValueError: The transcript lacks a message that the history policy shows.
        """
        n_calling = sum(step.kind is StepKind.TOOL_CALL for step in transcript.turn_steps)
        if not self.tools and n_calling >= MOST_WITHOUT_TOOLS:
            where = f"round {transcript.turn} of {transcript.problem.problem_id}"
            error = f"{self.model.identity.label} called tools in {n_calling} answers of {where}"
            return Stop(StopReason.SUBJECT_ERROR, f"{error}, but the setting has no tools")
        completion = await self.model.complete(
            transcript.request(
                messages, self.sampling, tools=tuple(tool.spec for tool in self.tools)
            )
        )
        return refusal_of(completion, self.model, transcript) or answer_step(
            transcript, completion, kind
        )


def messages_of(transcript: Transcript, history: HistoryPolicy) -> tuple[Message, ...]:
    """Return the messages that request the answer of round `transcript.turn`.

    They are the dialog's system turns, its context, and the past that the history policy shows.

    Raises:
        ValueError: The round has no user message yet, or the transcript lacks an answer that the
            policy shows.
    """
    texts = {(step.turn, step.role): step.content for step in transcript.messages}
    if (transcript.turn, Role.USER) not in texts:
        raise ValueError(
            f"round {transcript.turn} of {transcript.dialog.dialog_id} has no user message"
        )
    system = tuple(
        Message(Role.SYSTEM, turn.content or "")
        for turn in transcript.dialog.turns
        if turn.role is Role.SYSTEM and turn.content
    )
    own_steps = () if history is HistoryPolicy.ON_POLICY else _render(transcript.turn_steps)
    shows_past = history is not HistoryPolicy.LAST_CODE_AND_FEEDBACK
    earlier = (
        tuple(Message(turn.role, turn.content or "") for turn in transcript.context)
        if shows_past
        else ()
    )
    return system + earlier + RENDERERS[history](transcript, texts) + own_steps


def _render(steps: Iterable[Step]) -> tuple[Message, ...]:
    """Return messages, tool calls and observations. Artifacts are visible only to their reader."""
    return tuple(message_of(step) for step in steps if step.kind is not StepKind.ARTIFACT)


Texts = Mapping[tuple[int, Role], str]


def _on_policy(transcript: Transcript, texts: Texts) -> tuple[Message, ...]:
    return _render(transcript.steps)


def _reference(transcript: Transcript, texts: Texts) -> tuple[Message, ...]:
    answers = (turn for turn in transcript.dialog.turns if turn.role is Role.ASSISTANT)
    golden = {
        turn.turn: turn.content if turn.reference is None else turn.reference for turn in answers
    }
    messages: list[Message] = []
    for turn in range(1, transcript.turn):
        answer = golden.get(turn)
        if answer is None:
            raise ValueError(
                f"{transcript.dialog.dialog_id} has no reference answer of round {turn}, which"
                " history=reference needs"
            )
        messages += [Message(Role.USER, texts[turn, Role.USER]), Message(Role.ASSISTANT, answer)]
    return (*messages, Message(Role.USER, texts[transcript.turn, Role.USER]))


def _upstream_v0(transcript: Transcript, texts: Texts) -> tuple[Message, ...]:
    """Return three messages: all earlier prompts, the answer to the first, and the new prompt."""
    return _after_first_answer(transcript, texts, range(1, transcript.turn))


def _first_round(transcript: Transcript, texts: Texts) -> tuple[Message, ...]:
    """Return the prompt and answer of the first round, and the new message."""
    return _after_first_answer(transcript, texts, (1,))


def _after_first_answer(
    transcript: Transcript, texts: Texts, prompts: Sequence[int]
) -> tuple[Message, ...]:
    new = Message(Role.USER, texts[transcript.turn, Role.USER])
    if transcript.turn == 1:
        return (new,)
    earlier = "\n".join(texts[turn, Role.USER] for turn in prompts)
    return Message(Role.USER, earlier), Message(Role.ASSISTANT, texts[1, Role.ASSISTANT]), new


def _last_code_and_feedback(transcript: Transcript, texts: Texts) -> tuple[Message, ...]:
    """Return only the round's message, which contains problem, previous code and feedback."""
    return (Message(Role.USER, texts[transcript.turn, Role.USER]),)


RENDERERS: Mapping[HistoryPolicy, Callable[[Transcript, Texts], tuple[Message, ...]]] = (
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


@dataclass(frozen=True, slots=True)
class ScriptedUser:
    """User who says `texts[n - 1]` in round n and ends the dialogue after the last text."""

    texts: tuple[str, ...]

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the text of round `transcript.turn`, or the end as finished."""
        if transcript.turn > len(self.texts):
            return Stop(StopReason.FINISHED)
        return Step(turn=transcript.turn, role=Role.USER, content=self.texts[transcript.turn - 1])


@dataclass(frozen=True)
class PartlyScripted:
    """Participant that answers `answers[n]` in round n, and delegates other rounds to another one.

    The other participant sees these answers as its own.
    """

    participant: Participant
    answers: Mapping[int, str]

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the scripted answer of round `transcript.turn`, or the other participant's step.

        Raises the errors of the other participant.
        """
        text = self.answers.get(transcript.turn)
        if text is None:
            return await self.participant.speak(transcript)
        return Step(turn=transcript.turn, role=Role.ASSISTANT, content=text, labels=(SCRIPTED,))


def partly_scripted(participant: Participant, dialog: Dialog) -> Participant:
    """Return the participant with the dialog's scripted answers, or unchanged if there are none."""
    answers = dialog.scripted_answers
    return PartlyScripted(participant, answers) if answers else participant


def answer_step(
    transcript: Transcript, answer: Completion, kind: StepKind, n_calls: int | None = None
) -> Step:
    """Return an answer as a step. A step with tool calls has the kind TOOL_CALL.

    Call ids become unique within the dialogue.

    Args:
        transcript: Transcript before the answer.
        answer: Answer of the model.
        kind: Kind of the step if the answer has no calls.
        n_calls: Number of requests behind the answer. None for the answer's own number.
    """
    calls = _with_unique_ids(transcript, answer.calls)
    return Step(
        turn=transcript.turn,
        role=Role.ASSISTANT,
        content=answer.content,
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
        latency_s=answer.latency_s,
        finish_reason=answer.finish_reason,
        served_model=answer.served_model,
        n_calls=answer.n_calls if n_calls is None else n_calls,
        kind=StepKind.TOOL_CALL if calls else kind,
        calls=calls,
        reasoning=answer.reasoning or None,
        reasoning_tokens=answer.reasoning_tokens,
        adapted=answer.adapted,
    )


def without_calls(step: Step | Stop, kind: StepKind) -> Step | Stop:
    """Return the answer to a request that offered no tools, as its text alone."""
    if isinstance(step, Stop):
        return step
    return step.model_copy(update={"kind": kind, "calls": ()})


def _with_unique_ids(transcript: Transcript, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """Return the calls with ids that are new in the dialogue.

    Some endpoints restart their numbering.
    """
    known_ids = {call.call_id for step in transcript.steps for call in step.calls}
    renamed: list[ToolCall] = []
    for call in calls:
        number, call_id = 1, call.call_id or "call"
        while call_id in known_ids:
            number += 1
            call_id = f"{call.call_id or 'call'}_{number}"
        known_ids.add(call_id)
        renamed.append(call.model_copy(update={"call_id": call_id}))
    return tuple(renamed)
