"""Decisions about a mean paired difference while problems are still being evaluated.

The decisions are valid however often the data are examined. Problems are evaluated in a uniformly
random order without replacement. So, given the past, the next difference has the mean of the
remaining problems. For a candidate mean `m` of the whole data set, a gambler who bets on "the mean
is above `m`" has a fair game if `m` is true. The capital ever exceeds 1/alpha with probability at
most alpha (Ville's inequality). So the candidates whose gamblers did not get rich form a confidence
sequence. The capital falls with `m`, so each end is one root.

Problems may lie in strata that are known beforehand, such as those with equal scores of the
baseline. Then the gambler guesses each stratum's mean from the earlier values. The bets are on the
value, minus the guess for its stratum, plus the mean guess of the remaining problems. The game
stays fair, since the two guesses are equal on average, and such values vary less. A problem that
turns out to have no value gets the candidate mean, which leaves the mean of the data set as it is.

Source: Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting",
JRSS B 86, sections 4 and 5 (hedged capital, predictable plug-in bets, sampling without
replacement); Wang and Ramdas 2022, "False discovery rate control with e-values", JRSS B 84. The
guesses are control variates, as in post-stratification.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, cast

import numpy as np

Decision = Literal["better", "worse", "equivalent", "all_asked"]
Claim = Literal["better", "worse", "equivalent"]
_TRUNCATION = 0.5
"""Largest share of the capital that one bet can lose."""
_HORIZON = 1 / 20
"""Bets are sized for a decision after at least this share of the problems. Bets of any size are
valid; `python -m tests.bench.sequence` shows how many problems this size saves."""
_PRECISION = 1e-10
"""Interval ends are computed with this precision, and moved outwards by it."""
_GUESS_WEIGHT = 10.0
"""Number of values of a stratum that count as much for its guess as all other values together."""
_E_VALUE_ALPHA = 0.05
"""Level that the bets of an e-value aim at. Any other level is valid, too."""


class _Game(NamedTuple):
    """Values in the order of evaluation, and what a gambler knows before each.

    `sums` and `n_scorable` have one more entry, for the time after the last value.
    """

    values: np.ndarray
    """Values in [0, 1], or 0 for problems without one, plus the difference of the guesses."""
    is_unscored: np.ndarray
    """1 for a problem without a value, else 0."""
    sums: np.ndarray
    """Sum of the earlier values, without guesses."""
    n_scorable: np.ndarray
    """Number of problems of the data set, minus the earlier ones without a value."""
    n_left: np.ndarray
    """Number of problems that were not evaluated before each value."""
    bets: np.ndarray
    slack: np.ndarray
    """Largest distance below 0 that the guesses can move a value."""


def confidence_interval(
    differences: np.ndarray, n_total: int, alpha: float, strata: np.ndarray | None = None
) -> tuple[float, float]:
    """Return the interval of the mean difference, valid after any number of problems.

    It is the intersection of the intervals after each problem. If they have nothing in common
    (probability at most `alpha`), the ends are swapped.

    Args:
        differences: one for each problem evaluated, in [-1, 1], in the order of evaluation. NaN for
            a problem that turned out to have none: the mean does not cover it.
        n_total: number of problems of the data set.
        alpha: probability that the mean is ever outside.
        strata: number of each problem's stratum, 0 or more, for all `n_total` problems in the order
            of evaluation. They must be fixed before the first evaluation. None: one stratum.

    Returns:
        Lower and upper end: (-1, 1) before the first problem, and both the mean after the last.

    Raises:
        ValueError: differences outside [-1, 1], more of them than `n_total`, alpha outside (0, 1),
            or a number of strata other than `n_total`.
    """
    values, strata = _checked(differences, n_total, alpha, strata)
    if np.isnan(values).all():
        return -1.0, 1.0
    if values.size == n_total:
        return _mean(differences), _mean(differences)
    low = _lower_end(_game(values, strata, alpha), alpha)
    high = 1 - _lower_end(_game(1 - values, strata, alpha), alpha)
    return 2 * min(low, high) - 1, 2 * max(low, high) - 1


def intervals(
    differences: np.ndarray, n_total: int, alpha: float, strata: np.ndarray | None = None
) -> np.ndarray:
    """Return `confidence_interval` after each problem.

    Returns:
        Array of shape (n, 2): lower and upper ends.

    Raises:
        ValueError: As `confidence_interval`.
    """
    values, strata = _checked(differences, n_total, alpha, strata)
    lows = _lower_ends(_game(values, strata, alpha), alpha)
    highs = 1 - _lower_ends(_game(1 - values, strata, alpha), alpha)
    ends = 2 * np.sort(np.column_stack([lows, highs]), axis=1) - 1
    if values.size == n_total and not np.isnan(values).all():
        ends[-1] = _mean(differences)
    return ends


def decide(interval: tuple[float, float], margin: float, is_all_asked: bool) -> Decision | None:
    """Decide as soon as the interval allows it.

    Args:
        interval: interval of the mean difference, new minus baseline, where higher is better.
        margin: differences smaller than this make two models equivalent.
        is_all_asked: no problem is left.

    Returns:
        `better` or `worse` if the interval excludes 0, `equivalent` if it lies within the margin.
        None: evaluate more problems.
    """
    low, high = interval
    if low > 0:
        return "better"
    if high < 0:
        return "worse"
    if -margin < low and high < margin:
        return "equivalent"
    return "all_asked" if is_all_asked else None


def would_decide(
    differences: np.ndarray,
    n_begun: int,
    n_total: int,
    alpha: float,
    margin: float,
    strata: np.ndarray | None = None,
) -> bool:
    """Forecast whether the problems whose evaluation has begun will lead to a decision.

    Problems without a result get the known differences of their stratum, repeated in their order.
    Use the forecast only to schedule work: a decision needs the real differences.

    Args:
        differences: As in `confidence_interval`.
        n_begun: Number of problems whose evaluation has begun, finished ones included.
        n_total: As in `confidence_interval`.
        alpha: As in `confidence_interval`.
        margin: As in `decide`.
        strata: As in `confidence_interval`.

    Raises:
        ValueError: As `confidence_interval`.
    """
    n = differences.size
    if not n:
        return False
    expected = np.resize(differences, min(max(n_begun, n), n_total))
    if strata is not None:
        for stratum in np.unique(strata[n : expected.size]):
            places = n + np.flatnonzero(strata[n : expected.size] == stratum)
            known = differences[strata[:n] == stratum]
            expected[places] = np.resize(known if known.size else differences, places.size)
    interval = confidence_interval(expected, n_total, alpha, strata)
    return decide(interval, margin, is_all_asked=False) is not None


def e_values(
    differences: np.ndarray, n_total: int, margin: float, strata: np.ndarray | None = None
) -> Mapping[Claim, float]:
    """Return the evidence for each claim: the capital of a gambler against its contrary.

    Its mean is at most 1 if the claim is false. An e-value may be read at any stopping time, such
    as the one of a run stopped by `decide`.

    Args:
        differences: as in `confidence_interval`.
        n_total: as in `confidence_interval`.
        margin: as in `decide`.
        strata: as in `confidence_interval`.

    Returns:
        Claim -> e-value, at least 0. It is infinite if no remaining answer can make the claim
        false.

    Raises:
        ValueError: As `confidence_interval`.
    """
    values, strata = _checked(differences, n_total, _E_VALUE_ALPHA, strata)
    up, down = (_game(side, strata, _E_VALUE_ALPHA) for side in (values, 1 - values))
    return {
        "better": _e_value(up, 0.5),
        "worse": _e_value(down, 0.5),
        "equivalent": min(_e_value(game, (1 - margin) / 2) for game in (up, down)),
    }


def e_bh(e_values: Sequence[float], alpha: float) -> list[bool]:
    """Select claims with an expected share of false ones of at most `alpha`, under any dependence.

    The k largest e-values are selected, for the largest k whose k-th value is at least n / (k
    alpha).

    Args:
        e_values: one for each claim, such as "better" of each checkpoint of a night.
        alpha: expected share of false claims.

    Source: Wang and Ramdas 2022, definition 4.1.
    """
    n = len(e_values)
    descending = sorted(e_values, reverse=True)
    n_chosen = max(
        (k for k, value in enumerate(descending, start=1) if value * k * alpha >= n), default=0
    )
    return [n_chosen > 0 and value >= descending[n_chosen - 1] for value in e_values]


def _checked(
    differences: np.ndarray, n_total: int, alpha: float, strata: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the differences as values in [0, 1] or NaN, and the strata."""
    differences = np.asarray(differences, dtype=float)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha={alpha}: it is a probability between 0 and 1, such as 0.05")
    if differences.size > n_total:
        raise ValueError(
            f"{differences.size} differences of n_total={n_total} problems: give one for "
            "each problem"
        )
    outside = differences[np.abs(differences) > 1]
    if outside.size:
        raise ValueError(
            f"difference {outside[0]}: it must be in [-1, 1]. Scale the metric by its range"
        )
    strata = np.zeros(n_total, int) if strata is None else strata
    if strata.size != n_total:
        raise ValueError(f"{strata.size} strata of n_total={n_total} problems: give one for each")
    return (differences + 1) / 2, strata


def _mean(differences: np.ndarray) -> float:
    scored = differences[~np.isnan(differences)]
    # Thirds that cancel are a tie, not 1e-17 better.
    return round(math.fsum(scored) / len(scored), 12)


def _game(values: np.ndarray, strata: np.ndarray, alpha: float) -> _Game:
    n_total, n_before = strata.size, np.arange(values.size)
    is_scored = ~np.isnan(values)
    known = np.where(is_scored, values, 0.0)
    shifts, slack = _guess_shifts(known, is_scored, strata)
    n_scored = np.append(0, np.cumsum(is_scored))
    means = (0.5 + np.cumsum(known + shifts * is_scored)) / (n_scored[1:] + 1)
    squares = _earlier(((known + shifts - means) * is_scored) ** 2)
    variances = (0.25 + squares) / (n_scored[:-1] + 1)
    n_left = n_total - n_before
    n_informative = np.maximum((n_before + 1) * n_left / n_total, n_total * _HORIZON)
    return _Game(
        values=known + shifts,
        is_unscored=(~is_scored).astype(float),
        sums=np.append(0.0, np.cumsum(known)),
        n_scorable=n_total - np.append(0, np.cumsum(~is_scored)),
        n_left=n_left,
        bets=np.sqrt(math.log(2 / alpha) / (variances * n_informative)),
        slack=slack,
    )


def _guess_shifts(
    known: np.ndarray, is_scored: np.ndarray, strata: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean guess of the remaining problems minus the guess for each problem's stratum.

    The guess for a stratum is the mean of its earlier values, moved towards the mean of all.

    Returns:
        The shifts, and the largest distance by which each could have been below 0. Both have the
        shape of `known`.
    """
    n, of_stratum = known.size, np.bincount(strata)
    if len(of_stratum) < 2:  # the shift is 0, without errors of rounding
        return np.zeros(n), np.zeros(n)
    drawn = np.eye(len(of_stratum))[strata[:n]]
    n_left = of_stratum - _earlier(drawn)
    n_scored, sums = _earlier(drawn * is_scored[:, None]), _earlier(drawn * known[:, None])
    overall = (0.5 + sums.sum(axis=1)) / (1 + n_scored.sum(axis=1))
    guesses = (_GUESS_WEIGHT * overall[:, None] + sums) / (_GUESS_WEIGHT + n_scored)
    expected = (guesses * n_left).sum(axis=1) / n_left.sum(axis=1)
    shifts = expected - guesses[np.arange(n), strata[:n]]
    return shifts, np.where(n_left > 0, guesses, 0).max(axis=1, initial=0) - expected


def _earlier(rows: np.ndarray) -> np.ndarray:
    """Return the sum of all rows before each row."""
    return np.cumsum(rows, axis=0) - rows


def _log_gains(game: _Game, mean: float, n: int | None = None) -> np.ndarray:
    """Return the growth of log capital by each of the first `n` values.

    The bets are on a mean above `mean`. The growth falls with `mean`.
    """
    values, is_unscored, sums, n_scorable, n_left, bets, slack = (
        array[: game.values.size][:n] for array in game
    )
    expected = np.clip((n_scorable * mean - sums) / n_left, 1e-12, 1)
    bets = np.minimum(bets, _TRUNCATION / (expected + slack))
    return np.log1p(bets * (values + is_unscored * mean - expected))


def _e_value(game: _Game, mean: float) -> float:
    if game.sums[-1] > game.n_scorable[-1] * mean + 1e-9:
        return math.inf
    return math.exp(min(700.0, float(_log_gains(game, mean).sum())))


def _lower_end(game: _Game, alpha: float) -> float:
    """Return the smallest mean whose gambler's capital never reached the target.

    The capital falls with the mean, and so does its running maximum. So there is one root.
    """
    target = math.log(2 / alpha)
    surely = max(0.0, float(game.sums[-1] / game.n_scorable[-1]) - _PRECISION)
    return _root(lambda mean: float(np.cumsum(_log_gains(game, mean)).max()) - target, surely)


def _lower_ends(game: _Game, alpha: float) -> np.ndarray:
    """Return the lower end of the interval after each value (see `_lower_end`).

    An end stays equal until the capital of its gambler reaches the target.
    """
    target, n = math.log(2 / alpha), game.values.size
    ends, low, start = np.zeros(n), 0.0, 0
    while start < n:
        is_rich = np.cumsum(_log_gains(game, low))[start:] >= target
        end = start + int(np.argmax(is_rich)) if is_rich.any() else n
        ends[start:end] = low
        if end < n:
            low = _root(
                lambda mean, n=end + 1: float(_log_gains(game, mean, n).sum()) - target, low
            )
            ends[end] = low
        start = end + 1
    return np.maximum(ends, game.sums[1:] / np.maximum(game.n_scorable[1:], 1) - _PRECISION)


def _root(excess: Callable[[float], float], low: float) -> float:
    """Return the root of a falling function, or `low` if the function is not above 0 there."""
    from scipy.optimize import brentq

    if excess(low) <= 0:
        return low
    step = 1e-4
    while low + step < 1 and excess(low + step) > 0:
        low, step = low + step, step * 4
    return max(
        low, cast(float, brentq(excess, low, min(1.0, low + step), xtol=_PRECISION)) - _PRECISION
    )
