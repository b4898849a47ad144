"""A model's answer as a step of its turn: the same fields for whoever asked."""

from schemas.dialog import Role
from schemas.episode import Step, StepKind, ToolCall
from tasks.dialogue.transcript import Transcript
from tasks.language.chat_model import Completion


def answered_step(
    transcript: Transcript, answer: Completion, kind: StepKind, calls: tuple[ToolCall, ...], n_calls: int | None = None
) -> Step:
    """The step; one with calls is a tool call, whatever its kind.

    Args:
        calls: the answer's, under the ids that the transcript is to know them by.
        n_calls: requests that it took; None for the answer's own number.
    """
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
    )
