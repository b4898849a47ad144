"""A static task: tells which turns of the logs are asked, and how the other turns count (paper section 3)."""

from dataclasses import dataclass

from schemas.dialog import Dialog


@dataclass(frozen=True)
class Replay:
    """The turns of one task in one setting's logs, read from a dialog's labels.

    A turn is not asked once the reference model has solved the task: the target is credited. It is not asked either where nothing
    was said about the reference's code: that failing code stands.
    """

    n_turns: int
    """From 0: the logs' last turn plus one."""
    asked: frozenset[int]
    solved_at: int | None
    """First turn whose reference code passes; None where none does."""

    @staticmethod
    def of(dialog: Dialog) -> "Replay":
        """Read the labels of a static dialog."""
        labels = dict(dialog.labels)
        solved = labels.get("reference_solved_at")
        return Replay(
            n_turns=int(labels["last_iteration"]) + 1,
            asked=frozenset(int(turn) for turn in labels["asked"].split(",")),
            solved_at=int(solved) if solved else None,
        )

    @staticmethod
    def iteration(dialog: Dialog) -> int:
        """The paper's turn that a static dialog asks."""
        return int(dict(dialog.labels)["iteration"])

    @property
    def credited_from(self) -> int | None:
        """First turn of this task that is credited; None where there is none."""
        after = self.n_turns if self.solved_at is None else self.solved_at + 1
        return after if after < self.n_turns else None

    def turns_of(self, dialog: Dialog) -> tuple[int, ...]:
        """Turns that are scored on a dialog's episode: its own turn; on the episode of turn 0 also the turns not asked."""
        own = self.iteration(dialog)
        return tuple(
            t for t in range(self.n_turns) if t == own or (own == 0 and t not in self.asked)
        )
