"""Which patch a dialogue ended in: what an agent left in its workspace, or an answer that is a unified diff."""

import re

from schemas.dialog import Role
from schemas.episode import Episode, StepKind
from tasks.dialogue.agents.repository import PATCH

_BEGINS = re.compile(r"^(?:diff --git .*|--- \S.*\n\+\+\+ \S.*)$", re.MULTILINE)
_FENCE_ENDS = re.compile(r"^(?:`{3,}|~{3,})[ \t\r]*$", re.MULTILINE)
"""At the very beginning of a line: in a diff that is no line, since each has a sign or a blank before it."""


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

    An agent's patch is its workspace's alone, whatever the agent says beside it. Without an agent, the last diff that was said.
    None for the patch where there was no answer at all.
    """
    own = [step for step in episode.steps if step.role is Role.ASSISTANT]
    left = [
        step
        for step in own
        if step.kind is StepKind.ARTIFACT and any(name == PATCH for name, _ in step.labels)
    ]
    said = [step for step in own if step.kind is StepKind.MESSAGE]
    turn = max((step.turn for step in (*left, *said)), default=1)
    if left:
        return turn, left[-1].content
    diffs = [diff for step in said if (diff := diff_in(step.content)) is not None]
    return turn, diffs[-1] if diffs else "" if said else None
