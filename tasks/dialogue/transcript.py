"""The messages so far, as both seats see them."""

from dataclasses import dataclass

from schemas.dialog import Dialog, Role
from schemas.episode import Step
from schemas.problem import Problem


@dataclass(frozen=True, slots=True)
class Transcript:
    """An episode under way. `turn` is the round that is being played (1-based)."""

    problem: Problem
    dialog: Dialog
    sample: int
    seed: int
    turn: int
    steps: tuple[Step, ...] = ()

    def texts(self, role: Role) -> tuple[str, ...]:
        """All messages of one role, in order."""
        return tuple(step.content for step in self.steps if step.role is role)
