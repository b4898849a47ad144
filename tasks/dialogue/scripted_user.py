"""User with a script, whose messages do not depend on the subject's answers."""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.dialog import Dialog, Role
from schemas.episode import SCRIPTED, Step, StepKind, StopReason, ToolCall
from tasks.dialogue.engine import Seat, Stop, Transcript
from tasks.language.chat_model import Completion


@dataclass(frozen=True, slots=True)
class ScriptedUser:
    """User who says `texts[n - 1]` in round n and ends the dialogue after the last text."""

    texts: tuple[str, ...]
    role: Role = Role.USER

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the text of round `transcript.turn`, or the end as finished."""
        if transcript.turn > len(self.texts):
            return Stop(StopReason.FINISHED)
        return Step(turn=transcript.turn, role=self.role, content=self.texts[transcript.turn - 1])


@dataclass(frozen=True)
class PartlyScripted:
    """Seat that answers `answers[n]` in round n and delegates other rounds to another seat.

    The other seat sees these answers as its own.
    """

    seat: Seat
    answers: Mapping[int, str]
    role: Role = Role.ASSISTANT

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the scripted answer of round `transcript.turn`, or the other seat's step.

        Raises the errors of the other seat.
        """
        text = self.answers.get(transcript.turn)
        if text is None:
            return await self.seat.speak(transcript)
        return Step(turn=transcript.turn, role=self.role, content=text, labels=(SCRIPTED,))


def partly_scripted(seat: Seat, dialog: Dialog) -> Seat:
    """Return the seat with the dialog's scripted answers. Without any, return the seat itself."""
    answers = dialog.scripted_answers
    return PartlyScripted(seat, answers) if answers else seat


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
