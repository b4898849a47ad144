"""Do two benchmarks order models alike? Spearman's rank correlation (ConvCodeWorld section 4.3)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIN_MODELS = 5
"""Fewest models: with less, almost any order looks correlated (four models agree by chance one time in twelve)."""
RESAMPLES = 9_999
SEED = 20250917
_PLACES = 12
"""Digits kept of rho. Later ones are noise of a division: 0.9999999999999999 for models in the same order."""


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's rho of two series over the same models."""

    n: int
    rho: float | None
    """In [-1, 1]; None where there is no figure."""
    p: float | None
    """Two-sided, in (0, 1]: how often a random order of the models agrees or disagrees at least as much."""
    note: str = ""
    """Why there is no figure; empty where there is one."""


def spearman(first: Sequence[float], second: Sequence[float]) -> RankCorrelation:
    """Spearman's rank correlation of two series, one value a model in the same order; ties share their mean rank.

    The p-value is that of a permutation test: all orders where they are at most 9,999 (up to seven models), else as many drawn
    with a fixed seed. The usual approximation by a t distribution says p = 0 for five models in the same order.

    Args:
        first, second: finite numbers, one a model.

    Returns:
        The figure with n and p; no figure below `MIN_MODELS` models ("insufficient") and where one series does not vary.

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

    found: Any = spearmanr(first, second)
    return RankCorrelation(n, round(float(found.statistic), _PLACES), _p_value(first, second))


def _p_value(first: Sequence[float], second: Sequence[float]) -> float:
    from scipy.stats import permutation_test, rankdata

    fixed = rankdata(second)

    def covariance(ranks: "NDArray[Any]", axis: int) -> "NDArray[Any]":
        """The part of rho that an order of the models changes."""
        return ((ranks - ranks.mean(axis=axis, keepdims=True)) * (fixed - fixed.mean())).sum(
            axis=axis
        )

    found = permutation_test(
        (rankdata(first),),
        covariance,
        permutation_type="pairings",
        vectorized=True,
        n_resamples=RESAMPLES,
        rng=SEED,
    )
    return float(found.pvalue)
