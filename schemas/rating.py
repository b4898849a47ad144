"""People's ratings of dialogues, beside which judgements are held."""

from pydantic import Field

from schemas.base import Frozen


class Rating(Frozen):
    """One person's rating of one dimension of one turn, or of the whole dialogue."""

    rater: str
    benchmark: str
    """Of the episode."""
    episode_id: str
    turn: int = Field(ge=0)
    """0: the whole dialogue."""
    rubric: str
    dimension: str = ""
    value: float | None = None
    """The rating; None where it is a word (`label`)."""
    label: str | None = None
    """The rating as a word; None where it is a number."""

    @property
    def key(self) -> tuple[str, int, str, str]:
        """What was rated: a rater has one rating of it."""
        return self.episode_id, self.turn, self.rubric, self.dimension
