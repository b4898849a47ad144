"""Extraction of a dialogue's final patch from an agent's workspace or an answer."""

import re

from schemas.dialog import Role
from schemas.episode import Episode, StepKind
from tasks.dialogue.agents.repository import PATCH

_BEGINS = re.compile(r"^(?:diff --git .*|--- \S.*\n\+\+\+ \S.*)$", re.MULTILINE)
_FENCE_ENDS = re.compile(r"^(?:`{3,}|~{3,})[ \t\r]*$", re.MULTILINE)
"""End of a fence at the start of a line. Lines of a diff start with a sign or a blank instead."""


def diff_in(answer: str) -> str | None:
    """Return the unified diff of an answer, or None.

    The diff extends from its first header to the end of its fence or of the text.
    """
    begins = _BEGINS.search(answer)
    if begins is None:
        return None
    diff = answer[begins.start() :]
    fence = _FENCE_ENDS.search(diff)
    diff = diff[: fence.start()] if fence else diff
    return diff if diff.endswith("\n") else f"{diff}\n"


def final_patch(episode: Episode) -> tuple[int, str | None]:
    """Return the last answered round and the final patch, which is empty if nothing changed.

    An agent's patch comes from its workspace alone. Without an agent, it is the last diff in an
    answer. The patch is None if there was no answer.
    """
    steps = [step for step in episode.steps if step.role is Role.ASSISTANT]
    artifacts = [
        step
        for step in steps
        if step.kind is StepKind.ARTIFACT and any(name == PATCH for name, _ in step.labels)
    ]
    answers = [step for step in steps if step.kind is StepKind.MESSAGE]
    turn = max((step.turn for step in (*artifacts, *answers)), default=1)
    if artifacts:
        return turn, artifacts[-1].content
    diffs = [diff for step in answers if (diff := diff_in(step.content)) is not None]
    return turn, diffs[-1] if diffs else "" if answers else None
