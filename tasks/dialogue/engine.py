"""Conversation engine: two seats alternate until one of them stops.

A seat may take many steps before its message.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from schemas.dialog import Role
from schemas.episode import Step, StepKind, StopReason
from schemas.errors import AnswerMissing, InfraError, ModelUnavailable
from tasks.dialogue.seats import Cast, Stop
from tasks.dialogue.transcript import Transcript, last_message, steps_since_message, visible_steps


@dataclass(frozen=True, slots=True)
class Ending:
    """Steps of a dialogue, and the reason why it ended."""

    steps: tuple[Step, ...]
    stop_reason: StopReason
    error: str | None = None
    permanent: bool = False
    """True if another request cannot help, for example after a wrong key or served model."""
    failed_calls: int = 0
    """Number of requests for the step that failed."""


async def play_dialogue(opening: Transcript, cast: Cast, keep: Callable[[Step], None]) -> Ending:
    """Play a dialogue to its end, from its beginning or from the last step of an earlier attempt.

    Args:
        opening: Transcript so far. Its `turn` and the next seat are recomputed from its steps.
        cast: Both seats. The counterpart opens each round and the subject answers. Each seat sees
            all messages and its own steps.
        keep: Stores a step. Called before the next request.

    Returns:
        The ending. Faults of services end it as `infra` and are not raised. Errors of `keep`, such
        as a full disk, are raised.
    """
    steps = opening.steps
    visible = {answering: visible_steps(steps, subject=answering) for answering in (False, True)}
    while True:
        last = last_message(steps)
        answering = last is not None and last.role is not Role.ASSISTANT
        turn = last.turn if answering and last else (last.turn + 1 if last else 1)
        if turn > cast.max_turns:
            return Ending(steps, StopReason.TURN_LIMIT)
        seat = cast.subject if answering else cast.counterpart
        now = replace(opening, turn=turn, steps=visible[answering])
        try:
            has_steps_left = len(steps_since_message(steps)) < cast.max_steps
            step = await seat.speak(now) if has_steps_left else cast.at_step_limit(now, seat)
        except AnswerMissing as missing:
            return Ending(steps, StopReason.SUBJECT_ERROR, str(missing))
        except InfraError as fault:
            permanent = isinstance(fault, ModelUnavailable) and fault.permanent
            failed_calls = fault.n_calls if isinstance(fault, ModelUnavailable) else 0
            return Ending(steps, StopReason.INFRA, str(fault), permanent, failed_calls)
        if isinstance(step, Stop):
            return Ending(steps, step.reason, step.error, failed_calls=step.n_calls)
        keep(step)
        steps = (*steps, step)
        for who in visible:
            if who == answering or step.kind is StepKind.MESSAGE:
                visible[who] = (*visible[who], step)
