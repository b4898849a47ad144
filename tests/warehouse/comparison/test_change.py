"""Trend and change point of short series, by hand."""

import math

import pytest

from warehouse.comparison.history import Change, Trend, change, trend


def test_a_series_that_always_rises_has_the_least_p_value_of_its_length() -> None:
    found = trend([0.1, 0.2, 0.3, 0.4, 0.6])
    # of 120 orders one rises all the way, one falls
    assert (found.tau, found.p_value) == (pytest.approx(1.0), pytest.approx(2 / 120))
    # slopes between points: 0.1 six times, 0.2 once (steps 3 to 4), 0.15, 0.4/3, 0.5/4
    assert found.slope == pytest.approx(0.1)


def test_a_step_is_found_where_the_new_level_begins() -> None:
    found = change([1, 2, 3, 4, 11, 12, 13, 14])
    # the lowest four come first in 4! 4! orders, the highest in as many: |U| = 16 there alone
    assert (found.at, found.p_value) == (
        4,
        pytest.approx(2 * math.factorial(4) ** 2 / math.factorial(8)),
    )
    assert change([5, 5, 5, 1, 1, 1]).at == 3
    assert change([5, 5, 5, 1, 1, 1]).p_value == pytest.approx(
        2 * math.factorial(3) ** 2 / math.factorial(6)
    )


def test_a_wild_night_is_no_change() -> None:
    found = change([0.5, 0.51, 0.49, 0.9, 0.5, 0.52, 0.48, 0.5])
    assert found.p_value is not None
    assert found.p_value > 0.5


def test_longer_series_draw_orders_by_a_seed() -> None:
    step = [1.0 + 0.01 * (n % 3) for n in range(8)] + [0.5 + 0.01 * (n % 3) for n in range(8)]
    found = change(step)
    assert found.at == 8
    assert found.p_value is not None
    # of 16!/(8! 8!) = 12,870 ways to choose who comes first, two are as clear
    assert 1 / 10_000 <= found.p_value < 0.002
    assert change(step) == found
    level = change([0.5 + 0.01 * (n % 3) for n in range(16)])
    assert level.p_value is not None
    assert level.p_value > 0.5


def test_too_few_points_and_points_that_never_move_tell_nothing() -> None:
    assert (trend([0.1, 0.9]), change([0.1, 0.9])) == (Trend(), Change())
    assert (trend([0.5] * 9), change([0.5] * 9)) == (Trend(), Change())
