"""Labels of an agent's steps that other modules read."""

from collections.abc import Sequence

from schemas.dialog import Role
from schemas.episode import Step

PATCH = "patch"
"""Label of the artifact that contains the agent's changes as a unified diff.

Its value names the source of the diff.
"""
ENDED, FINISHED, STEP_LIMIT, CONTEXT = "ended", "finished", "step_limit", "context"
"""Label of the agent's last message, with the reason for the end.

`context`: the conversation does not fit, even with all observations left out.
"""
DROPPED = "observations_dropped"
"""Label of an answer: number of old observations that its prompt left out."""
MOST_SIZE = "most_size"
"""Label of the answer after a too long prompt: characters of the largest prompt that fits."""
MALFORMED, EMPTY, CALL = "malformed", "empty", "call"
"""Label of an unusable answer: it was empty or had an unreadable call. The user never gets it."""
SENT_BY_TOOL = "sent_by"
"""Label of a message: name of the tool whose call contains it."""


ENDS = "ends"
"""Label of the artifact with the patch: reason for the end, which the last message repeats."""


def has_label(step: Step, label: str) -> bool:
    """Return True if a step has a label of this name."""
    return any(name == label for name, _ in step.labels)


def n_answers(steps: Sequence[Step]) -> int:
    """Return the number of the model's answers, without the steps that the loop adds."""
    added_labels = {PATCH, ENDED, SENT_BY_TOOL}
    return sum(
        step.role is Role.ASSISTANT and added_labels.isdisjoint(name for name, _ in step.labels)
        for step in steps
    )
