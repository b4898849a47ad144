"""Which patch a dialogue ended in: what an agent left in its workspace, or an answer that is a unified diff."""

import re

from schemas.dialog import Role
from schemas.episode import Episode, StepKind

_BEGINS = re.compile(r"^(?:diff --git .*|--- \S.*\n\+\+\+ \S.*)$", re.MULTILINE)
_FENCE_ENDS = re.compile(r"^[ \t]*```[ \t]*$", re.MULTILINE)
PATCH = "patch"
"""Label of the step that holds an agent's patch."""


def diff_in(answer: str) -> str | None:
    """The unified diff of an answer, from its first header to the end of its fence or of the text; None where there is none."""
    begins = _BEGINS.search(answer)
    if begins is None:
        return None
    diff = answer[begins.start() :]
    fence = _FENCE_ENDS.search(diff)
    diff = diff[: fence.start()] if fence else diff
    return diff if diff.endswith("\n") else f"{diff}\n"


def final_patch(episode: Episode) -> tuple[int, str | None]:
    """The last round that was answered, and the dialogue's patch: empty where nothing was changed.

    None for the patch where there was no answer at all.
    """
    patch: str | None = None
    turn = 1
    for step in episode.steps:
        if step.role is not Role.ASSISTANT:
            continue
        if step.kind is StepKind.ARTIFACT and any(name == PATCH for name, _ in step.labels):
            turn, patch = step.turn, step.content
        elif step.kind is StepKind.MESSAGE:
            turn, patch = step.turn, (patch or diff_in(step.content) or "")
    return turn, patch
