"""Labels of drafts: replies that were checked before they were sent, or never sent."""

from collections.abc import Sequence

from schemas.episode import Step, StepKind
from tasks.dialogue.agents.repository.labels import EMPTY, MALFORMED

PART, CANDIDATE, REVIEW = "part", "candidate", "review"
"""Label of an artifact, and its values: an unsent reply, and the check of a reply."""
VIOLATIONS = "violations"
"""Label of a check and of the next reply: kinds of violations in the draft, comma-separated."""
REVIEWED, UNREADABLE = "reviewed", "unreadable"
"""Label of a reply and its check if the model's check was unreadable, so violations are unknown."""


def draft_note(steps: Sequence[Step], position: int) -> str:
    """Return a reader's note on the fate of a draft, or an empty text if the step is not a draft.

    Args:
        steps: Steps of the episode.
        position: 0-based index of the step in `steps`.
    """
    labels = dict(steps[position].labels)
    if (malformed := labels.get(MALFORMED)) is not None:
        why = "an empty answer" if malformed == EMPTY else "an unreadable tool call"
        return f"rejected draft: {why}"
    if labels.get(PART) == REVIEW:
        return "check of the draft"
    if labels.get(PART) != CANDIDATE:
        return ""
    for step in steps[position + 1 :]:
        later_labels = dict(step.labels)
        if step.kind is StepKind.MESSAGE or later_labels.get(PART) == REVIEW:
            if later_labels.get(VIOLATIONS):
                return f"rejected draft: {later_labels[VIOLATIONS].replace(',', ', ')}"
            return (
                "draft, sent without a readable check"
                if later_labels.get(REVIEWED) == UNREADABLE
                else "draft, sent unchanged"
            )
    return "draft"
