"""Paired statistics of one metric, by hand and beside scipy."""

import math
from itertools import product

import pytest
from scipy.stats import rankdata

from warehouse.comparison.paired import (
    NOTHING_SHARED,
    Paired,
    adjusted,
    mcnemar,
    minimum_detectable_effect,
    paired,
    wilcoxon,
)
from warehouse.intervals import cluster_bootstrap


def test_mcnemar_is_a_sign_test_of_wins_and_losses() -> None:
    # 1 win and 5 losses: 2 (C(6,0) + C(6,1)) / 2^6 = 14/64; draws count for nothing
    assert mcnemar([1, -1, -1, -1, -1, -1, 0, 0, 0]) == pytest.approx(14 / 64)
    assert mcnemar([0, 0]) == 1.0


def test_wilcoxon_is_the_share_of_signs_with_as_extreme_a_rank_sum() -> None:
    # ranks 1 to 5, all but the smallest positive: sums as extreme as 14 are 14 and 15, or 0 and 1:
    # 4 of 32
    assert wilcoxon([-0.1, 0.2, 0.3, 0.4, 0.5]) == pytest.approx(4 / 32)
    assert wilcoxon([0.0, 0.0]) == 1.0


def test_wilcoxon_with_ties_is_exact_also_where_floats_hide_them() -> None:
    moved = [0.1 + 0.2, 0.3, 0.3, -0.3, 0.6, 0.6, 0.0]
    ranks = rankdata([0.3, 0.3, 0.3, 0.3, 0.6, 0.6])  # 2.5 four times, 5.5 twice
    sums = [
        sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign)
        for signs in product((0, 1), repeat=6)
    ]
    found = sum(rank for rank, sign in zip(ranks, (1, 1, 1, 0, 1, 1), strict=True) if sign)
    above = sum(one >= found for one in sums) / len(sums)
    assert wilcoxon(moved) == pytest.approx(2 * above)


def test_one_binary_score_a_problem_is_tested_by_mcnemar() -> None:
    values, others = [1, 1, 0, 1, 1, 1], [0, 0, 1, 0, 0, 1]
    found = paired(values, others, list("abcdef"))
    assert (found.n, found.n_problems, found.test) == (6, 6, "mcnemar")
    assert (found.mean, found.other_mean, found.difference) == (
        pytest.approx(5 / 6),
        pytest.approx(2 / 6),
        pytest.approx(0.5),
    )
    assert found.p_value == pytest.approx(2 * (1 + 5) / 2**5)
    # d = 1 1 -1 1 1 0, mean 1/2: squares 4 (1/4) + 9/4 + 1/4 = 7/2, variance 7/10, standard error
    # sqrt(7/60)
    assert found.mde == pytest.approx((1.959964 + 0.841621) * math.sqrt(7 / 60), abs=1e-5)
    assert (found.ci_low, found.ci_high) == cluster_bootstrap([1, 1, -1, 1, 1, 0], list("abcdef"))


def test_scores_of_one_problem_are_one_value_of_the_test_and_one_draw_of_the_interval() -> None:
    values, others = [1, 1, 0, 1, 1, 0], [0, 0, 0, 1, 0, 0]
    found = paired(values, others, list("aabbcc"))
    # means by problem: a +1, b 0, c +1/2; two signs can be drawn, and both are up: 2/4
    assert (found.n, found.n_problems, found.test, found.p_value) == (
        6,
        3,
        "wilcoxon",
        pytest.approx(0.5),
    )
    assert found.difference == pytest.approx(0.5)
    # sums less sizes times the mean: 2 - 1, 0 - 1, 1 - 1: squares 2; error sqrt(3/2 * 2) / 6
    assert found.mde == pytest.approx((1.959964 + 0.841621) * math.sqrt(3) / 6, abs=1e-5)
    assert (found.ci_low, found.ci_high) == cluster_bootstrap([1, 1, 0, 0, 1, 0], list("aabbcc"))
    assert paired(values[::-1], others[::-1], list("ccbbaa")) == found, (
        "the order of pairs does not matter"
    )


def test_equal_runs_have_no_interval_no_detectable_effect_and_p_1() -> None:
    found = paired([1.0, 0.5], [1.0, 0.5], ["a", "b"])
    assert (found.difference, found.p_value, found.ci_low, found.ci_high, found.mde) == (
        0.0,
        1.0,
        None,
        None,
        None,
    )


def test_a_single_problem_has_no_interval_and_nothing_shared_has_a_reason() -> None:
    alone = paired([1, 1], [0, 1], ["a", "a"])
    assert (alone.difference, alone.ci_low, alone.mde, alone.n_problems) == (0.5, None, None, 1)
    assert paired([], [], []) == Paired(undefined_because=NOTHING_SHARED)
    with pytest.raises(ValueError, match="2 pairs and 1 problems"):
        paired([1, 1], [0, 1], ["a"])


def test_the_detectable_effect_falls_with_the_root_of_the_number_of_problems() -> None:
    one = minimum_detectable_effect({f"p{n}": [float(n % 2)] for n in range(100)})
    four = minimum_detectable_effect({f"p{n}": [float(n % 2)] for n in range(400)})
    assert one is not None
    assert four == pytest.approx(one / 2, rel=0.01)


def test_a_difference_of_the_detectable_size_is_found_in_four_cases_of_five() -> None:
    import numpy as np

    generator = np.random.default_rng(7)
    noise = generator.normal(size=(400, 60))
    mde = minimum_detectable_effect(
        {
            f"p{n}": [float(value)]
            for n, value in enumerate(noise.ravel()[:60] / noise.ravel()[:60].std())
        }
    )
    assert mde is not None
    found = sum(wilcoxon(list(row + mde)) < 0.05 for row in noise)
    assert 0.7 < found / 400 < 0.9


def test_adjusted_p_values_are_benjamini_and_hochbergs() -> None:
    # sorted 0.01 0.03 0.04 0.5, times 4/rank: 0.04 0.06 0.0533 0.5; from the end the least so far:
    # 0.04 0.0533 0.0533 0.5
    assert adjusted({"a": 0.04, "b": 0.01, "c": None, "d": 0.5, "e": 0.03}) == {
        "a": pytest.approx(0.16 / 3),
        "b": pytest.approx(0.04),
        "c": None,
        "d": pytest.approx(0.5),
        "e": pytest.approx(0.16 / 3),
    }
    assert adjusted({"a": None}) == {"a": None}
