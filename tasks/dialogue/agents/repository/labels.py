"""Labels of an agent's steps that others read."""

from collections.abc import Sequence

from schemas.dialog import Role
from schemas.episode import Step

PATCH = "patch"
"""Of the artifact that holds what the agent changed, as a unified diff. Its value: how the diff was made."""
ENDED, FINISHED, STEP_LIMIT, CONTEXT = "ended", "finished", "step_limit", "context"
"""Of the agent's last message: why the dialogue is over. `context`: the conversation does not fit, however much is left out."""
DROPPED = "observations_dropped"
"""Of an answer: how many old observations its prompt left out, since the context was full."""
MOST_SIZE = "most_size"
"""Of an answer before which a prompt was too long: characters of the largest prompt that is known to fit."""
MALFORMED, EMPTY, CALL = "malformed", "empty", "call"
"""Of an answer that could not be used: it was empty, or a call in its text could not be read. The user never gets it."""
SENT_BY_TOOL = "sent_by"
"""Of a message: the tool whose call holds it."""


def n_answers(steps: Sequence[Step]) -> int:
    """Answers of the model: the agent's own steps, but for those that the loop makes of them."""
    made = {PATCH, ENDED, SENT_BY_TOOL}
    return sum(
        step.role is Role.ASSISTANT and made.isdisjoint(name for name, _ in step.labels)
        for step in steps
    )
