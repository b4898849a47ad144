"""The one conversation engine: two seats alternate until one of them stops. A seat may take many steps before its message."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from schemas.dialog import Role
from schemas.episode import Step, StepKind, StopReason
from schemas.errors import AnswerMissing, InfraError, ModelUnavailable
from tasks.dialogue.seats import Cast, Stop
from tasks.dialogue.transcript import Transcript, last_message, seen_by, steps_taken


@dataclass(frozen=True, slots=True)
class Ending:
    """A dialogue's steps, and the reason why it ended."""

    steps: tuple[Step, ...]
    stop_reason: StopReason
    error: str | None = None
    permanent: bool = False
    """True where asking again cannot help (a wrong key, another model than the one asked for)."""
    failed_calls: int = 0
    """Requests sent for the step that never came."""


async def play_dialogue(opening: Transcript, cast: Cast, keep: Callable[[Step], None]) -> Ending:
    """Play a dialogue to its end, from its beginning or from where an earlier attempt stopped.

    Args:
        opening: the transcript so far; its `turn` is recomputed from its steps, and so is who goes on.
        cast: who speaks. The counterpart opens each round, the subject answers it. Each sees all messages and its own steps.
        keep: called with each step before the next is asked for.

    Returns:
        The ending; faults of services are `infra`, never an exception. An error of `keep` (a full disk) is raised.
    """
    steps = opening.steps
    seen = {answering: seen_by(steps, subject=answering) for answering in (False, True)}
    while True:
        last = last_message(steps)
        answering = last is not None and last.role is not Role.ASSISTANT
        turn = last.turn if answering and last else (last.turn + 1 if last else 1)
        if turn > cast.max_turns:
            return Ending(steps, StopReason.TURN_LIMIT)
        seat = cast.subject if answering else cast.counterpart
        now = replace(opening, turn=turn, steps=seen[answering])
        try:
            has_steps_left = len(steps_taken(steps)) < cast.max_steps
            said = await seat.speak(now) if has_steps_left else cast.at_step_limit(now, seat)
        except AnswerMissing as missing:
            return Ending(steps, StopReason.SUBJECT_ERROR, str(missing))
        except InfraError as fault:
            permanent = isinstance(fault, ModelUnavailable) and fault.permanent
            failed_calls = fault.n_calls if isinstance(fault, ModelUnavailable) else 0
            return Ending(steps, StopReason.INFRA, str(fault), permanent, failed_calls)
        if isinstance(said, Stop):
            return Ending(steps, said.reason, said.error, failed_calls=said.n_calls)
        keep(said)
        steps = (*steps, said)
        for who in seen:
            if who == answering or said.kind is StepKind.MESSAGE:
                seen[who] = (*seen[who], said)
