"""A dialogue as one text, for those who are shown it as a whole: the simulator and the judges."""

from collections.abc import Iterable

from schemas.dialog import Role
from schemas.episode import Step

_NAMES = {Role.USER: "User", Role.ASSISTANT: "Assistant"}


def told(messages: Iterable[Step]) -> str:
    """Each message with its speaker's name before it."""
    return "\n".join(f"{_NAMES[step.role]}: {step.content}" for step in messages)
