"""Spearman's rank correlation of two benchmarks over models (ConvCodeWorld section 4.3)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


MIN_MODELS = 5
"""Minimum number of models.

With fewer, almost any order looks correlated: four models agree or disagree completely by chance
once in twelve.
"""
RESAMPLES = 9_999
SEED = 20250917
_PLACES = 12
"""Decimal places of rho. Later ones are rounding noise, such as 0.9999999999999999 for 1."""


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's rho of two series over the same models."""

    n: int
    rho: float | None
    """Correlation in [-1, 1]; None if it is undefined."""
    p: float | None
    """Two-sided p-value in (0, 1]: share of random orders of the models with an equal or larger
    absolute correlation."""
    note: str = ""
    """Reason why `rho` is None; empty if it is a number."""


def spearman(first: Sequence[float], second: Sequence[float]) -> RankCorrelation:
    """Return Spearman's rank correlation of two series; ties share their mean rank.

    The p-value comes from a permutation test: over all orders if there are at most 9,999 (up to
    seven models), else over 9,999 orders drawn with a fixed seed. The usual approximation by a t
    distribution gives p = 0 for five models in the same order.

    Args:
        first: finite numbers, one for each model.
        second: finite numbers of the same models in the same order.

    Returns:
        The correlation with n and p. `rho` is None for fewer than `MIN_MODELS` models
        ("insufficient") and if one series is constant.

    Raises:
        ValueError: the series differ in length, or hold a number that is not finite.

    Source: scipy.stats.spearmanr and permutation_test; ConvCodeWorld section 4.3.
    """
    n = len(first)
    if n != len(second):
        raise ValueError(f"{n} values and {len(second)}: both series need one value for each model")
    if not all(math.isfinite(value) for value in (*first, *second)):
        raise ValueError("a value is not finite: leave out models without a figure")
    if n < MIN_MODELS:
        return RankCorrelation(n, None, None, f"insufficient: {n} of at least {MIN_MODELS} models")
    if len(set(first)) == 1 or len(set(second)) == 1:
        return RankCorrelation(n, None, None, "undefined: all models have the same value")
    from scipy.stats import spearmanr

    correlation: Any = spearmanr(first, second)
    return RankCorrelation(n, round(float(correlation.statistic), _PLACES), _p_value(first, second))


def _p_value(first: Sequence[float], second: Sequence[float]) -> float:
    from scipy.stats import permutation_test, rankdata

    second_ranks = rankdata(second)

    def covariance(ranks: "NDArray[Any]", axis: int) -> "NDArray[Any]":
        """Return n times the covariance of the ranks. The order changes no other part of rho."""
        return (
            (ranks - ranks.mean(axis=axis, keepdims=True)) * (second_ranks - second_ranks.mean())
        ).sum(axis=axis)

    test_result = permutation_test(
        (rankdata(first),),
        covariance,
        permutation_type="pairings",
        vectorized=True,
        n_resamples=RESAMPLES,
        rng=SEED,
    )
    return float(test_result.pvalue)


ALPHA = 0.05
Ratings = Mapping[str, Mapping[str, float]]
"""Ratings by people or by a judge: system -> rated item -> rating."""


@dataclass(frozen=True)
class RankAccuracy:
    """Number of pairs of systems, and of the pairs that judge and people order in the same way."""

    n_pairs: int
    """Pairs whose ratings by people differ significantly."""
    n_agreed: int
    """Pairs among `n_pairs` that the judge orders in the same way."""
    n_compared: int
    """Pairs of systems that have ratings of the same items."""

    @property
    def accuracy(self) -> float | None:
        """Share `n_agreed` / `n_pairs`; None without pairs."""
        return self.n_agreed / self.n_pairs if self.n_pairs else None


def rank_accuracy(people: Ratings, judge: Ratings, alpha: float = ALPHA) -> RankAccuracy:
    """Compare all pairs of systems on the items that people and the judge rated for both.

    A pair counts if a Wilcoxon signed rank test of people's ratings, paired by item, gives
    p < alpha; zero differences are ranked, then dropped (Pratt 1959). A judge whose mean difference
    is 0 does not agree.

    Source: Dialogue-SWEBench section 7.3, after Kocmi et al. 2021.
    """
    n_pairs = n_agreed = n_compared = 0
    for first, second in combinations(sorted(people.keys() & judge.keys()), 2):
        items = sorted(
            people[first].keys()
            & people[second].keys()
            & judge[first].keys()
            & judge[second].keys()
        )
        if not items:
            continue
        n_compared += 1
        differences = [people[first][item] - people[second][item] for item in items]
        if not differ(differences, alpha):
            continue
        n_pairs += 1
        judge_mean = fmean(judge[first][item] - judge[second][item] for item in items)
        n_agreed += judge_mean * fmean(differences) > 0
    return RankAccuracy(n_pairs, n_agreed, n_compared)


def differ(differences: list[float], alpha: float = ALPHA) -> bool:
    """Return True if paired differences are significant, two-sided; False if all are zero.

    Source: scipy's Wilcoxon test with `zero_method="pratt"`.
    """
    if not any(differences):
        return False
    from scipy.stats import wilcoxon

    test_result: Any = wilcoxon(differences, zero_method="pratt")
    return float(test_result.pvalue) < alpha
