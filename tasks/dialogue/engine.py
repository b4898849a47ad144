"""The one conversation engine: two seats alternate until one of them stops."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from schemas.dialog import Role
from schemas.episode import Step, StopReason
from schemas.errors import AnswerMissing, InfraError, ModelUnavailable
from tasks.dialogue.seats import Cast, Stop
from tasks.dialogue.transcript import Transcript


@dataclass(frozen=True, slots=True)
class Ending:
    """A dialogue's messages, and the reason why it ended."""

    steps: tuple[Step, ...]
    stop_reason: StopReason
    error: str | None = None
    permanent: bool = False
    """True where asking again cannot help (a wrong key, another model than the one asked for)."""
    failed_calls: int = 0
    """Requests sent for the message that never came."""


async def play_dialogue(opening: Transcript, cast: Cast, keep: Callable[[Step], None]) -> Ending:
    """Play a dialogue to its end, from its beginning or from where an earlier attempt stopped.

    Args:
        opening: the transcript so far; its `turn` is recomputed from its steps.
        cast: who speaks. The counterpart opens each round, the subject answers it.
        keep: called with each message before the next is asked for.

    Returns:
        The ending; faults of services are `infra`, never an exception. An error of `keep` (a full disk) is raised.
    """
    steps = opening.steps
    while True:
        last = steps[-1] if steps else None
        answering = last is not None and last.role is not Role.ASSISTANT
        turn = last.turn if answering and last else (last.turn + 1 if last else 1)
        if turn > cast.max_turns:
            return Ending(steps, StopReason.TURN_LIMIT)
        seat = cast.subject if answering else cast.counterpart
        try:
            said = await seat.speak(replace(opening, turn=turn, steps=steps))
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
