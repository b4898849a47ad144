"""Drafts: answers that the other seat did not get, or that were checked before it got them. Their labels, and their fate."""

from collections.abc import Sequence

from schemas.episode import Step, StepKind
from tasks.dialogue.agents.repository.labels import EMPTY, MALFORMED

PART, CANDIDATE, REVIEW = "part", "candidate", "review"
"""Label of an artifact, and its values: a reply that is not sent yet, and the check of it."""
VIOLATIONS = "violations"
"""Label of a check and of the reply after it: kinds of violations in the candidate, separated by commas."""
REVIEWED, UNREADABLE = "reviewed", "unreadable"
"""Label of a reply, and of its check, that no answer of the model could be read for: whether something is wrong is not known."""


def draft_note(steps: Sequence[Step], position: int) -> str:
    """Return what became of a draft, for a reader; an empty text for a step that is none.

    Args:
        position: of the step among `steps`, from 0.
    """
    labels = dict(steps[position].labels)
    if (malformed := labels.get(MALFORMED)) is not None:
        return f"rejected draft: {'an empty answer' if malformed == EMPTY else 'a call that cannot be read'}"
    if labels.get(PART) == REVIEW:
        return "check of the draft"
    if labels.get(PART) != CANDIDATE:
        return ""
    for step in steps[position + 1 :]:
        found = dict(step.labels)
        if step.kind is StepKind.MESSAGE or found.get(PART) == REVIEW:
            if found.get(VIOLATIONS):
                return f"rejected draft: {found[VIOLATIONS].replace(',', ', ')}"
            return (
                "draft, sent without a readable check"
                if found.get(REVIEWED) == UNREADABLE
                else "draft, sent as it stands"
            )
    return "draft"
