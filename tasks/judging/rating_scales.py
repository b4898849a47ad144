"""The values that a person may give by a rubric."""

from collections.abc import Mapping
from dataclasses import dataclass

from tasks.judging.rubric import Rubric


@dataclass(frozen=True)
class RatingScale:
    """The values of one dimension: numbers between two ends, or one of several words. Without either any value will do."""

    ends: tuple[float, float] | None = None
    words: tuple[str, ...] = ()

    def fault_of(self, value: float | str) -> str | None:
        """Return what is wrong with a value; None where it lies on the scale."""
        if self.ends is not None and (
            isinstance(value, str) or not self.ends[0] <= value <= self.ends[1]
        ):
            low, high = self.ends
            return f"value {value if isinstance(value, str) else f'{value:g}'}: the scale goes from {low:g} to {high:g}"
        if self.words and value not in self.words:
            return f"value {value!r}: the scale has {', '.join(self.words)}"
        return None


Scales = Mapping[str, Mapping[str, RatingScale]]
"""Rubric -> dimension -> its scale."""


def scales_of(rubrics: Mapping[str, Rubric]) -> Scales:
    """Return the scales on which people rate by these rubrics."""
    return {name: _scales(rubric) for name, rubric in rubrics.items()}


def _scales(rubric: Rubric) -> Mapping[str, RatingScale]:
    own = {name: RatingScale(rubric.ranges.get(name), rubric.words) for name in rubric.dimensions}
    return own | {name: RatingScale(ends) for name, ends in rubric.people.items()}
