"""Values that people may give in ratings by a rubric."""

from collections.abc import Mapping
from dataclasses import dataclass

from tasks.judging.rubric import Rubric


@dataclass(frozen=True)
class RatingScale:
    """Allowed values of one dimension: a numeric range or a list of words.

    Without either, any value is allowed.
    """

    ends: tuple[float, float] | None = None
    words: tuple[str, ...] = ()

    def fault_of(self, value: float | str) -> str | None:
        """Return why a value is not on the scale, or None if it is."""
        if self.ends is not None and (
            isinstance(value, str) or not self.ends[0] <= value <= self.ends[1]
        ):
            low, high = self.ends
            shown = value if isinstance(value, str) else f"{value:g}"
            return f"value {shown}: the scale goes from {low:g} to {high:g}"
        if self.words and value not in self.words:
            return f"value {value!r}: the scale has {', '.join(self.words)}"
        return None


Scales = Mapping[str, Mapping[str, RatingScale]]
"""Rubric -> dimension -> scale."""


def scales_of(rubrics: Mapping[str, Rubric]) -> Scales:
    """Return the scales of people's ratings by these rubrics."""
    return {name: _scales(rubric) for name, rubric in rubrics.items()}


def _scales(rubric: Rubric) -> Mapping[str, RatingScale]:
    own = {name: RatingScale(rubric.ranges.get(name), rubric.words) for name in rubric.dimensions}
    return own | {name: RatingScale(ends) for name, ends in rubric.people.items()}
