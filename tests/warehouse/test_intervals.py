"""Intervals against hand-worked figures."""

import math
import random

import duckdb
import pytest

from warehouse.intervals import cluster_bootstrap, interval, register_intervals, wilson

Z = 1.959963984540054


def hand_wilson(k: int, n: int) -> tuple[float, float]:
    p = k / n
    centre = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    return centre - half, centre + half


@pytest.mark.parametrize(("k", "n"), [(23, 50), (1, 8), (242, 245)])
def test_wilson_is_the_score_interval(k: int, n: int) -> None:
    assert wilson(k, n) == pytest.approx(hand_wilson(k, n), abs=1e-12)


def test_wilson_is_what_scipy_says_from_none_to_all() -> None:
    from scipy.stats import binomtest

    for n in (1, 7, 164):
        for k in range(n + 1):
            found = binomtest(k, n).proportion_ci(0.95, method="wilson")
            assert wilson(k, n) == pytest.approx((found.low, found.high), abs=1e-12)


@pytest.mark.parametrize(("k", "n"), [(0, 0), (-1, 3), (4, 3)])
def test_no_interval_of_impossible_counts(k: int, n: int) -> None:
    with pytest.raises(ValueError, match="successes"):
        wilson(k, n)


def test_wilson_of_eight_passes_of_eight_reaches_down_to_0_676() -> None:
    low, high = wilson(8, 8)
    assert low == pytest.approx(8 / (8 + Z * Z))
    assert round(low, 3) == 0.676
    assert high == 1.0


def test_distinct_problems_with_shares_of_zero_and_one_have_a_wilson_interval() -> None:
    values = [1.0] * 23 + [0.0] * 27
    assert interval(values, [f"p{i}" for i in range(50)]) == wilson(23, 50)


def test_counts_and_ratings_of_one_are_no_shares() -> None:
    problems = [f"p{i}" for i in range(10)]
    assert interval([1.0] * 10, problems, is_share=False) is None
    values = [1.0] * 7 + [0.0] * 3
    assert interval(values, problems, is_share=False) == cluster_bootstrap(values, problems)
    assert interval(values, problems) == wilson(7, 10)


def test_repeated_samples_of_a_problem_do_not_narrow_the_interval() -> None:
    """Ten copies of each problem's value say no more than one."""
    values = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0]
    problems = [f"p{i}" for i in range(10)]
    once = cluster_bootstrap(values, problems)
    assert cluster_bootstrap(values * 10, problems * 10) == pytest.approx(once)
    low, high = interval(values * 10, problems * 10) or (0, 0)
    naive_low, naive_high = wilson(60, 100)
    assert high - low > 1.5 * (naive_high - naive_low)


def test_bootstrap_of_two_clusters_is_worked_by_hand() -> None:
    """Clusters a (mean 0) and b (mean 1) of one size: resampled means are 0, 1/2, 1 with shares
    1/4, 1/2, 1/4.
    """
    assert cluster_bootstrap([0.0, 0.0, 1.0, 1.0], ["a", "a", "b", "b"]) == (0.0, 1.0)


def test_bootstrap_encloses_the_flat_mean_of_clusters_of_different_sizes() -> None:
    """One problem with 90 ones and nine with a single zero: the flat mean is 10/11, the mean of
    means 1/10.
    """
    values = [1.0] * 90 + [0.0] * 9
    clusters = ["long"] * 90 + [f"short{i}" for i in range(9)]
    low, high = cluster_bootstrap(values, clusters)
    assert low <= 90 / 99 <= high


def test_the_order_of_values_changes_nothing() -> None:
    drawn = random.Random(4)
    pairs = [(drawn.random(), f"p{drawn.randrange(12)}") for _ in range(80)]
    first = interval(*zip(*pairs, strict=True))
    drawn.shuffle(pairs)
    assert interval(*zip(*pairs, strict=True)) == first


def test_all_problems_passing_twice_is_no_proof_of_a_rate_of_one() -> None:
    assert interval([1.0] * 16, [f"p{i % 8}" for i in range(16)]) == wilson(8, 8)


@pytest.mark.parametrize(
    ("values", "clusters"),
    [
        ([], []),
        ([0.5], ["a"]),
        ([0.0, 1.0], ["a", "a"]),
        ([1.0, 1.0], ["a", "a"]),
        ([0.5, 0.5], ["a", "b"]),
    ],
)
def test_there_is_no_interval_where_clusters_cannot_tell(
    values: list[float], clusters: list[str]
) -> None:
    assert interval(values, clusters) is None


def test_values_without_clusters_are_refused() -> None:
    with pytest.raises(ValueError, match="2 values and 1 clusters"):
        interval([0.0, 1.0], ["a"])


def test_bootstrap_covers_the_true_mean_about_as_often_as_it_says() -> None:
    """40 problems x 3 correlated turns, 150 draws: nominal 95%, a percentile bootstrap of this size
    gets a little less.
    """
    drawn = random.Random(11)
    hits = 0
    for _ in range(150):
        rates = [drawn.random() for _ in range(40)]
        pairs = [
            (float(drawn.random() < rate), f"p{i}")
            for i, rate in enumerate(rates)
            for _ in range(3)
        ]
        low, high = cluster_bootstrap(*zip(*pairs, strict=True))
        hits += low <= 0.5 <= high
    assert 0.88 <= hits / 150 <= 1.0


def test_sql_sees_the_same_intervals_and_null_without_values() -> None:
    connection = duckdb.connect(":memory:")
    try:
        register_intervals(connection)
        rows = connection.execute(
            """
            select
                interval_low(list(v order by p) filter (where v is not null), list(p order by p) filter (where v is not null), true),
                interval_high(list(v order by p) filter (where v is not null), list(p order by p) filter (where v is not null), true)
            from (values (1, 'a', 1.0::double), (1, 'b', 0.0), (1, 'c', null), (2, 'a', null)) as t(g, p, v)
            group by g order by g
            """
        ).fetchall()
    finally:
        connection.close()
    assert rows == [wilson(1, 2), (None, None)]
