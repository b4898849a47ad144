"""Trend and change point of a short series of numbers.

Both are rank statistics, so that one outlier decides nothing alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import cast

LEAST_POINTS = 3
"""Fewest points of a series with a trend or a change point."""
_ENUMERATED = 8
"""Most points of which all orders are tried."""
_DRAWS = 9_999
_SEED = 20250917


@dataclass(frozen=True)
class Trend:
    """Trend of a series. The values are None for too few points, or if all points are equal.

    `slope` is per step, in the metric's unit. `tau` is in [-1, 1].
    """

    slope: float | None = None
    tau: float | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class Change:
    """Most likely change point: the first point of a new level (0-based).

    `p_value` is the probability that a random order of the points has an equally clear change.
    """

    at: int | None = None
    p_value: float | None = None


def trend(values: Sequence[float]) -> Trend:
    """Return the trend of a series: Mann and Kendall's test, and the median of its slopes.

    Source: Mann 1945, "Nonparametric tests against trend", Econometrica 13; Sen 1968, "Estimates of
    the regression coefficient based on Kendall's tau", JASA 63.
    """
    if len(values) < LEAST_POINTS or len(set(values)) == 1:
        return Trend()
    from scipy.stats import kendalltau, theilslopes

    steps = range(len(values))
    slope, *_ = cast("tuple[float, ...]", theilslopes(values, steps))
    tau, p_value = cast("tuple[float, float]", kendalltau(steps, values))
    return Trend(float(slope), float(tau), float(p_value))


def change(values: Sequence[float]) -> Change:
    """Return the most likely change point of a series.

    It is the cut with the largest of Pettitt's |U|, which for ranks R of t points of T is
    |2 (R1 + ... + Rt) - t (T + 1)|.

    The p-value is the share of orders of the same points whose largest |U| is at least as large: of
    all orders up to 8 points, of 9,999 seeded random ones beyond. (Pettitt's own formula is far too
    large for so few points.)

    Source: Pettitt 1979, "A non-parametric approach to the change-point problem", Applied
    Statistics 28.
    """
    if len(values) < LEAST_POINTS or len(set(values)) == 1:
        return Change()
    from scipy.stats import rankdata

    ranks = tuple(float(rank) for rank in rankdata(values))
    cuts = [abs(2 * math.fsum(ranks[:t]) - t * (len(ranks) + 1)) for t in range(1, len(ranks))]
    return Change(cuts.index(max(cuts)) + 1, _share_as_clear(max(cuts), tuple(sorted(ranks))))


def is_steady(values: Sequence[float], at: int) -> bool:
    """Return whether a straight line describes a series better than one step before point `at`.

    The sums of absolute residuals, from Theil and Sen's line and from the medians on both sides of
    the step, are compared by the Bayesian information criterion for Laplace errors. The step has
    one parameter more.

    Source: Schwarz 1978, "Estimating the dimension of a model", Annals of Statistics 6.
    """
    from statistics import median

    slope = trend(values).slope or 0.0
    flat = [value - slope * step for step, value in enumerate(values)]
    of_line = math.fsum(abs(value - median(flat)) for value in flat)
    of_step = math.fsum(
        abs(value - median(part)) for part in (values[:at], values[at:]) for value in part
    )
    return of_line <= of_step * len(values) ** (1 / (2 * len(values)))


@lru_cache(maxsize=4096)
def _share_as_clear(clearest: float, ranks: tuple[float, ...]) -> float:
    import numpy as np

    size = len(ranks)
    if size <= _ENUMERATED:
        orders = np.array(list(permutations(ranks)))
    else:
        orders = np.random.default_rng(_SEED).permuted(np.tile(ranks, (_DRAWS, 1)), axis=1)
    cuts = np.abs(2 * orders.cumsum(axis=1)[:, :-1] - np.arange(1, size) * (size + 1))
    n_as_clear = int((cuts.max(axis=1) >= clearest - 1e-9).sum())
    return n_as_clear / len(orders) if size <= _ENUMERATED else (n_as_clear + 1) / (len(orders) + 1)
