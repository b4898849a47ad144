"""Static tasks: the logged turns that are requested and the values of all others (section 3)."""

from dataclasses import dataclass

from schemas.dialog import Dialog


@dataclass(frozen=True)
class Replay:
    """Logged turns of one task in one setting, read from a dialog's labels.

    A turn is not requested in two cases. After the reference model has solved the task, the target
    is credited. If there was no feedback on the reference's code, its failing result is used.
    """

    n_turns: int
    """Number of turns in the logs, including turn 0."""
    requested_turns: frozenset[int]
    solved_at: int | None
    """First turn whose reference code passes. None if none does."""

    @staticmethod
    def of(dialog: Dialog) -> "Replay":
        """Return the turns from the labels of a static dialog."""
        labels = dict(dialog.labels)
        solved = labels.get("reference_solved_at")
        return Replay(
            n_turns=int(labels["last_iteration"]) + 1,
            requested_turns=frozenset(int(turn) for turn in labels["asked"].split(",")),
            solved_at=int(solved) if solved else None,
        )

    @staticmethod
    def iteration(dialog: Dialog) -> int:
        """Return the paper's turn number of a static dialog."""
        return int(dict(dialog.labels)["iteration"])

    @property
    def credited_from(self) -> int | None:
        """Return the first credited turn of this task, or None."""
        after = self.n_turns if self.solved_at is None else self.solved_at + 1
        return after if after < self.n_turns else None

    def turns_of(self, dialog: Dialog) -> tuple[int, ...]:
        """Return the turns scored on a dialog's episode.

        An episode scores its own turn. The episode of turn 0 also scores the turns without a
        request.
        """
        own = self.iteration(dialog)
        return tuple(
            t
            for t in range(self.n_turns)
            if t == own or (own == 0 and t not in self.requested_turns)
        )
