"""A model's answer as a step of its turn: the same fields for whoever asked."""

from schemas.dialog import Role
from schemas.episode import Step, StepKind, ToolCall
from tasks.dialogue.transcript import Transcript
from tasks.language.chat_model import Completion


def answered_step(
    transcript: Transcript, answer: Completion, kind: StepKind, n_calls: int | None = None
) -> Step:
    """The step; one with calls is a tool call, whatever its kind, and names them apart from all calls before.

    Args:
        n_calls: requests that it took; None for the answer's own number.
    """
    named = _named_apart(transcript, answer.calls)
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
        kind=StepKind.TOOL_CALL if named else kind,
        calls=named,
        reasoning=answer.reasoning or None,
        reasoning_tokens=answer.reasoning_tokens,
        adapted=answer.adapted,
    )


def _named_apart(transcript: Transcript, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """The calls under ids that the dialogue does not know yet: some endpoints count anew in each answer."""
    known = {call.call_id for step in transcript.steps for call in step.calls}
    named: list[ToolCall] = []
    for call in calls:
        number, call_id = 1, call.call_id or "call"
        while call_id in known:
            number += 1
            call_id = f"{call.call_id or 'call'}_{number}"
        known.add(call_id)
        named.append(call.model_copy(update={"call_id": call_id}))
    return tuple(named)
