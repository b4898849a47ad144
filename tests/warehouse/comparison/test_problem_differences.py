"""Samples and turns of a problem become one difference."""

import pytest

from schemas.errors import ConfigError
from warehouse.comparison.problem_differences import ScorePair, paired_differences


def test_samples_are_averaged_within_a_turn_and_turns_within_a_problem() -> None:
    # Turn 1: (1 + 0)/2 - 0 = 1/2. Turn 2: 1 - (1 + 1 + 0)/3 = 1/3. Their mean is 5/12.
    rows = [
        ScorePair("a", 1, 1.0, 0.0),
        ScorePair("a", 1, 0.0, None),
        ScorePair("a", 2, 1.0, 1.0),
        ScorePair("a", 2, None, 1.0),
        ScorePair("a", 2, None, 0.0),
    ]
    found = paired_differences(rows)
    assert (found.differences, found.values) == (
        {"a": pytest.approx(5 / 12)},
        {"a": pytest.approx(3 / 4)},
    )


def test_a_turn_that_one_side_lacks_shifts_no_difference() -> None:
    rows = [ScorePair("a", 1, 1.0, 1.0), ScorePair("a", 2, 0.0, None)]
    assert paired_differences(rows).differences == {"a": 0.0}


def test_a_problem_unscored_on_either_side_is_named_and_in_no_mean() -> None:
    rows = [
        ScorePair("b", 1, None, 1.0),
        ScorePair("a", 1, 1.0, 0.0),
        ScorePair("c", 1, 1.0, None),
        ScorePair("c", 2, None, 0.0),
    ]
    found = paired_differences(rows)
    assert (dict(found.differences), found.unscored) == ({"a": 1.0}, ("b", "c"))


def test_a_metric_is_scaled_by_its_range() -> None:
    assert paired_differences([ScorePair("a", 1, 5.0, 2.0)], ends=(1, 5)).differences == {
        "a": pytest.approx(3 / 4)
    }
    with pytest.raises(ConfigError, match=r"problem 'a', 1: score 6 is outside 1 to 5"):
        paired_differences([ScorePair("a", 1, 6.0, 2.0)], ends=(1, 5))
