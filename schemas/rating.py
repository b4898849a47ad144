"""Human ratings of dialogues, for comparison with a judge's ratings."""

from pydantic import Field

from schemas.base import Frozen


class Rating(Frozen):
    """One person's rating of one dimension of one turn, or of the whole dialogue."""

    rater: str
    benchmark: str
    """Benchmark of the episode."""
    episode_id: str
    turn: int = Field(ge=0)
    """1-based round; 0 for the whole dialogue."""
    rubric: str
    dimension: str = ""
    value: float | None = None
    """Rating as a number; None if it is a word (`label`)."""
    label: str | None = None
    """Rating as a word; None if it is a number."""

    @property
    def key(self) -> tuple[str, int, str, str]:
        """Rated object. A rater has at most one rating for each key."""
        return self.episode_id, self.turn, self.rubric, self.dimension
