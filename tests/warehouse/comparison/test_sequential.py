"""Intervals and e-values of unfinished comparisons: by hand, by a slow second implementation, and
by counting all orders.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import permutations

import numpy as np
import pytest

from warehouse.comparison.sequential import (
    confidence_interval,
    decide,
    e_bh,
    e_values,
    intervals,
    would_decide,
)

ALPHA = 0.05
GRID_STEP = 1 / 2_000


def log_capital(
    values: Sequence[float], strata: Sequence[int], mean: float, alpha: float
) -> list[float]:
    """Log capital after each value of a gambler against `mean`, one bet at a time as the paper
    writes it. A value that is NaN has none.
    """
    found, wealth, squares, n_total = [], 1.0, 0.0, len(strata)
    known: list[tuple[int, float]] = []  # (stratum, value) of the earlier problems with a value
    shifted = 0.5
    for t, value in enumerate(values, start=1):
        n_unscored = t - 1 - len(known)
        total = sum(earlier for _, earlier in known)
        expected = ((n_total - n_unscored) * mean - total) / (n_total - t + 1)
        expected = min(1.0, max(1e-12, expected))
        guess: dict[int, float] = {}
        overall = (0.5 + total) / (1 + len(known))
        for stratum in set(strata[t - 1 :]):
            of_stratum = [earlier for other, earlier in known if other == stratum]
            guess[stratum] = (10 * overall + sum(of_stratum)) / (10 + len(of_stratum))
        mean_guess = sum(guess[stratum] for stratum in strata[t - 1 :]) / (n_total - t + 1)
        shift = mean_guess - guess[strata[t - 1]]
        variance = (0.25 + squares) / (len(known) + 1)
        information = max(t * (n_total - t + 1) / n_total, n_total / 20)
        bet = min(
            math.sqrt(math.log(2 / alpha) / (variance * information)),
            0.5 / (expected + max(guess.values()) - mean_guess),
        )
        if math.isnan(value):
            wealth *= 1 + bet * (mean + shift - expected)
        else:
            wealth *= 1 + bet * (value + shift - expected)
            known.append((strata[t - 1], value))
            shifted += value + shift
            squares += (value + shift - shifted / (len(known) + 1)) ** 2
        found.append(math.log(wealth))
    return found


def slow_interval(
    differences: Sequence[float], strata: Sequence[int], alpha: float
) -> tuple[float, float]:
    """Ends of the candidate means on a grid that are possible and against which nobody ever held
    2/alpha.
    """
    values = [(d + 1) / 2 for d in differences]
    scored = [value for value in values if not math.isnan(value)]
    n_total = len(strata) - (len(values) - len(scored))
    possible = np.arange(0, 1 + GRID_STEP, GRID_STEP)
    possible = possible[
        (possible >= sum(scored) / n_total - 1e-12)
        & (possible <= (sum(scored) + n_total - len(scored)) / n_total + 1e-12)
    ]
    limit = math.log(2 / alpha)
    mirrored = [1 - value for value in values]
    lows = [m for m in possible if max(log_capital(values, strata, m, alpha)) < limit]
    highs = [m for m in possible if max(log_capital(mirrored, strata, 1 - m, alpha)) < limit]
    return 2 * min(lows) - 1, 2 * max(highs) - 1


def draw(rng: np.random.Generator, size: int) -> np.ndarray:
    """Differences of one of three kinds: wins and losses, thirds, any number."""
    kind = rng.integers(3)
    if kind == 0:
        return rng.choice([-1.0, 0.0, 1.0], size=size, p=rng.dirichlet([1, 3, 1]))
    return (
        rng.integers(-3, 4, size=size) / 3
        if kind == 1
        else rng.uniform(-1, rng.uniform(0, 1), size=size)
    )


@pytest.mark.slow
def test_ends_are_those_of_a_slow_second_implementation() -> None:
    rng = np.random.default_rng(40)
    for case in range(300):
        n_total = int(rng.integers(5, 41))
        differences = draw(rng, n_total)[: int(rng.integers(1, n_total))]
        alpha = float(rng.choice([0.05, 0.2]))
        strata = rng.integers(0, [1, 3][case % 2], n_total)
        if case % 3 == 0:
            differences[1:][rng.uniform(size=differences.size - 1) < 0.2] = math.nan
        found, slow = (
            confidence_interval(differences, n_total, alpha, strata),
            slow_interval(differences.tolist(), strata.tolist(), alpha),
        )
        assert found == pytest.approx(slow, abs=2 * GRID_STEP + 1e-9), case
        after_each = intervals(differences, n_total, alpha, strata)
        assert after_each[-1] == pytest.approx(found, abs=1e-8), case


def test_intervals_only_narrow_and_end_at_the_mean() -> None:
    differences = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], size=200, p=[0.1, 0.7, 0.2])
    found = intervals(differences, 200, ALPHA)
    assert found.shape == (200, 2)
    assert (np.diff(found[:-1, 0]) >= 0).all()
    assert (np.diff(found[:-1, 1]) <= 0).all()
    assert found[-1] == pytest.approx([differences.mean()] * 2)
    assert confidence_interval(differences, 200, ALPHA) == pytest.approx(tuple(found[-1]))


def test_an_interval_never_excludes_what_the_rest_can_still_make() -> None:
    # Nine wins of ten problems: the mean is 0.8 or more, whatever the last one brings, and no
    # gambler knows better.
    low, high = confidence_interval(np.ones(9), 10, 1e-9)
    assert (low, high) == (pytest.approx(0.8), pytest.approx(1.0))


def test_parts_that_cancel_are_no_difference() -> None:
    differences = np.array(
        [0.1, 0.2, -0.3, 0.7, 0.1, -0.8] * 5 + [1.0, -1.0]
    )  # summed as floats: not 0
    assert confidence_interval(differences, 32, ALPHA) == (0.0, 0.0)
    assert (
        confidence_interval(differences[:-1], 32, 1e-9)[0] <= 0
    )  # where the last answer can only bring the mean to 0


def test_before_the_first_answer_everything_is_possible() -> None:
    assert confidence_interval(np.array([]), 10, ALPHA) == (-1.0, 1.0)
    assert intervals(np.array([]), 10, ALPHA).shape == (0, 2)
    assert e_values(np.array([]), 10, 0.03) == {"better": 1.0, "worse": 1.0, "equivalent": 1.0}


@pytest.mark.parametrize(
    ("interval", "is_all_asked", "decision"),
    [
        ((0.001, 0.5), False, "better"),
        ((-0.5, -0.001), False, "worse"),
        ((-0.029, 0.029), False, "equivalent"),
        ((0.001, 0.002), False, "better"),  # a sign says more than the margin
        ((-0.031, 0.029), False, None),
        ((-0.031, 0.029), True, "all_asked"),
        ((0.0, 0.03), False, None),
        ((0.0, 0.0), True, "equivalent"),
    ],
)
def test_a_decision_needs_the_whole_interval(
    interval: tuple[float, float], is_all_asked: bool, decision: str | None
) -> None:
    assert decide(interval, 0.03, is_all_asked) == decision


@pytest.mark.parametrize(
    ("differences", "n_total", "alpha", "message"),
    [
        ([1.2], 10, 0.05, r"difference 1\.2: it must be in \[-1, 1\]"),
        ([math.inf], 10, 0.05, r"difference inf"),
        ([0.0, 0.0], 1, 0.05, r"2 differences of n_total=1"),
        ([0.0], 10, 5.0, r"alpha=5\.0"),
    ],
)
def test_impossible_values_are_refused(
    differences: list[float], n_total: int, alpha: float, message: str
) -> None:
    for function in (confidence_interval, intervals):
        with pytest.raises(ValueError, match=message):
            function(np.array(differences), n_total, alpha)
        with pytest.raises(ValueError, match="3 strata of n_total=4"):
            function(np.array([0.0]), 4, 0.05, np.zeros(3, int))


def test_a_forecast_repeats_the_known_differences() -> None:
    known, n_total = np.tile([1.0, 0.0, 0.0, 1.0, 0.0, -1.0], 12), 1_000
    asked = np.tile(known, 5)
    decided = 1 + next(
        n
        for n, (low, high) in enumerate(intervals(asked, n_total, 0.05))
        if decide((low, high), 0.01, is_all_asked=False) is not None
    )
    assert known.size < decided < asked.size
    for n_begun in range(0, asked.size, 7):
        assert would_decide(known, n_begun, n_total, 0.05, 0.01) is (n_begun >= decided)
    assert not would_decide(np.array([]), 500, n_total, 0.05, 0.01)


def test_e_bh_by_hand() -> None:
    # 4 claims at 0.1: the k-th largest must reach 40/k, so 40, 20, 13.3, 10.
    assert e_bh([39.0, 1.0, 1.0, 1.0], 0.1) == [False] * 4
    assert e_bh([1.0, 20.0, 0.0, 25.0], 0.1) == [False, True, False, True]
    assert e_bh([math.inf, 10.0, 10.0, 10.0], 0.1) == [True] * 4
    assert e_bh([], 0.1) == []


SIX = (
    (1, 1, -1, -1, 0, 0),
    (1, 0, 0, 0, 0, -1),
    (1, 0.5, -0.5, -1, 0.25, -0.25),
    (1, 1, 1, -1, -1, -1),
)
"""Data sets of six problems with mean 0: all 720 orders can be counted."""
UNSCORED = ((1, 0.5, math.nan, math.nan, -0.5, -1), (1, math.nan, 0.5, -0.5, -1, 0))
"""Data sets with mean 0 in which some problems turn out to have no difference."""
STRATA = ((0, 0, 0, 0, 0, 0), (0, 0, 1, 1, 2, 2), (0, 1, 1, 1, 1, 0))
"""Strata of the six problems; the last ones are far apart in mean."""

Problems = tuple[tuple[float, int], ...]
"""(difference, stratum) of each problem."""


def orders(problems: Problems) -> list[Problems]:
    return list(permutations(problems))


@pytest.mark.slow
@pytest.mark.parametrize("strata", STRATA)
@pytest.mark.parametrize("differences", SIX + UNSCORED)
@pytest.mark.parametrize("alpha", [0.2, 0.6])
def test_over_all_orders_the_mean_is_ever_left_out_by_alpha_at_most(
    differences: tuple[float, ...], strata: tuple[int, ...], alpha: float
) -> None:
    n_outside = 0
    for order in orders(tuple(zip(differences, strata, strict=True))):
        values, of_order = (np.array(column) for column in zip(*order, strict=True))
        ends = intervals(values.astype(float), 6, alpha, of_order)[:-1]
        n_outside += bool(((ends[:, 0] > 0) | (ends[:, 1] < 0)).any())
    assert n_outside <= alpha * math.factorial(6)


def best_mean(problems: Problems, e_value: Callable[[Problems, Problems], float]) -> float:
    """Mean e-value of someone who sees every answer and stops where stopping pays best, over all
    orders of the data set.
    """

    @lru_cache
    def worth(asked: Problems, left: Problems) -> float:
        here = e_value(asked, left)
        if not left:
            return here
        return max(
            here,
            sum(worth((*asked, left[i]), left[:i] + left[i + 1 :]) for i in range(len(left)))
            / len(left),
        )

    return worth((), problems)


@pytest.mark.slow
@pytest.mark.parametrize("strata", STRATA)
@pytest.mark.parametrize("differences", SIX + UNSCORED)
@pytest.mark.parametrize(
    ("claim", "shift"),
    [("better", 0.0), ("worse", 0.0), ("equivalent", 0.25), ("equivalent", -0.25)],
)
def test_no_stopping_rule_makes_an_e_value_of_a_false_claim_exceed_1_on_average(
    differences: tuple[float, ...], strata: tuple[int, ...], claim: str, shift: float
) -> None:
    moved = np.clip(np.array(differences) / 2 + shift, -1, 1)
    margin = abs(float(np.nanmean(moved))) if shift else 0.1

    def e_value(asked: Problems, left: Problems) -> float:
        # The strata of the remaining problems are known, but not their order.
        of_order = np.array([stratum for _, stratum in (*asked, *left)])
        values = np.array([difference for difference, _ in asked], dtype=float)
        return e_values(values, 6, margin, of_order)[claim]  # type: ignore[index]

    found = best_mean(tuple(zip(moved.tolist(), strata, strict=True)), e_value)
    assert found <= 1 + 1e-9
    if (
        not shift
    ):  # the mean is where the claim begins to be false: the game is fair, and no rule loses either
        assert found == pytest.approx(1)


@pytest.mark.slow
def test_strata_of_unlike_means_need_fewer_problems() -> None:
    rng = np.random.default_rng(11)
    of_stratum = np.repeat([0, 1], 300)
    wins, losses = rng.uniform(size=300) < 0.3, rng.uniform(size=300) < 0.2
    differences = np.concatenate([wins, -losses.astype(float)])
    asked = {True: 0, False: 0}
    for _ in range(20):
        order = rng.permutation(600)
        for is_stratified in asked:
            strata = of_stratum[order] if is_stratified else None
            ends = intervals(differences[order], 600, ALPHA, strata)
            asked[is_stratified] += int(np.argmax(ends[:, 0] > 0))
    assert asked[True] < 0.95 * asked[False]


def test_an_e_value_is_infinite_once_the_rest_cannot_undo_the_claim() -> None:
    found = e_values(np.ones(6), 10, 0.03)
    assert (found["better"], found["worse"] < 1, found["equivalent"] < 1) == (math.inf, True, True)


def test_the_same_capital_as_confseq() -> None:
    betting = pytest.importorskip(
        "confseq.betting", reason="confseq is not in the lock: it builds C++ with Boost"
    )
    from warehouse.comparison import sequential

    rng = np.random.default_rng(7)
    for _ in range(100):
        values = (draw(rng, 60)[:50] + 1) / 2
        game = sequential._game(values, np.zeros(60, int), ALPHA)
        mean = float(rng.uniform(values.sum() / 60, (values.sum() + 10) / 60))
        theirs = betting.betting_mart(
            values,
            mean,
            N=60,
            lambdas_fn_positive=lambda x, m, g=game: g.bets,
            theta=1,
            trunc_scale=0.5,
        )
        assert np.exp(np.cumsum(sequential._log_gains(game, mean))) == pytest.approx(
            theirs, rel=1e-6
        )


def test_a_night_of_intervals_takes_less_than_a_second() -> None:
    from time import process_time

    differences = np.random.default_rng(3).choice([-1.0, 0.0, 1.0], size=1_140, p=[0.05, 0.85, 0.1])
    confidence_interval(differences[:10], 1_140, ALPHA)  # imports scipy
    begin = process_time()
    for n in range(16, 1_141, 16):
        confidence_interval(differences[:n], 1_140, ALPHA)
    assert process_time() - begin < 1
