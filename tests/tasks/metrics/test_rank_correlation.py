"""Spearman over models: figures worked by hand, and no figure where there is none."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.metrics.rank_correlation import MIN_MODELS, spearman

LIVE = (0.55, 0.45, 0.35, 0.25, 0.15)


def test_two_neighbours_that_change_places_cost_a_tenth() -> None:
    """Rank differences (0, 0, 0, 1, 1): 1 - 6 * 2 / (5 * 24) = 0.9; of 120 orders 5 reach 0.9 and 5
    reach -0.9.
    """
    found = spearman(LIVE, (0.5, 0.4, 0.3, 0.1, 0.2))
    assert found.rho == pytest.approx(0.9)
    assert found.p == pytest.approx(10 / 120)
    assert (found.n, found.note) == (5, "")


def test_the_same_order_of_five_models_is_not_certainty() -> None:
    """2 of 120 orders agree or disagree fully; the usual approximation would say p = 0."""
    same, reverse = spearman(LIVE, LIVE), spearman(LIVE, LIVE[::-1])
    assert (same.rho, reverse.rho) == (1, -1), (
        "exactly: 0.9999999999999999 in a table is a question"
    )
    assert same.p == reverse.p == pytest.approx(2 / 120)


def test_ties_share_their_mean_rank() -> None:
    """Ranks (1.5, 1.5, 3, 4, 5) and (1, 2, 3, 4, 5): covariance 9.5 of sqrt(9.5 * 10)."""
    assert spearman((1, 1, 2, 3, 4), (1, 2, 3, 4, 5)).rho == pytest.approx(
        9.5 / math.sqrt(9.5 * 10)
    )


@pytest.mark.parametrize("n", range(MIN_MODELS))
def test_fewer_than_five_models_are_insufficient_and_have_no_figure(n: int) -> None:
    found = spearman(LIVE[:n], LIVE[:n])
    assert (found.rho, found.p, found.n) == (None, None, n)
    assert found.note == f"insufficient: {n} of at least 5 models"


def test_models_that_all_have_one_value_have_no_order() -> None:
    found = spearman(LIVE, (1.0,) * 5)
    assert (found.rho, found.p, found.n) == (None, None, 5)
    assert "same value" in found.note


def test_many_models_have_a_p_value_from_drawn_orders_that_is_the_same_each_time() -> None:
    live = [math.sin(n) for n in range(17)]
    static = [math.sin(n) + 0.6 * math.cos(3 * n) for n in range(17)]
    found = spearman(live, static)
    assert found == spearman(live, static)
    assert found.p is not None
    assert 1e-4 <= found.p < 0.02


def test_a_value_missing_or_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="one value for each model"):
        spearman(LIVE, LIVE[:4])
    with pytest.raises(ValueError, match="not finite"):
        spearman(LIVE, (*LIVE[:4], math.nan))


@settings(max_examples=10)
@given(st.permutations(range(5)))
def test_rho_is_the_textbook_s_where_nothing_ties(order: list[int]) -> None:
    found = spearman(range(5), order)
    assert found.rho == pytest.approx(
        1 - 6 * sum((a - b) ** 2 for a, b in enumerate(order)) / (5 * (5**2 - 1))
    )
    assert found.p is not None
    assert 2 / 120 <= found.p + 1e-12 <= 1 + 1e-12
