"""Text form of a dialogue for the simulator and the judges."""

from collections.abc import Iterable

from schemas.dialog import Role
from schemas.episode import Step
from tasks.language.prompt import quote_messages

_NAMES = {Role.USER: "user", Role.ASSISTANT: "assistant"}


def quote_dialogue(messages: Iterable[Step]) -> str:
    """Quote messages in a form that a message's own text cannot imitate."""
    return quote_messages((_NAMES[step.role], step.content) for step in messages)
