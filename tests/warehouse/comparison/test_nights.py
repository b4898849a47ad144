"""Simulated nights: a decision, at whatever moment someone looks, is false in a share of alpha of
the nights at most.

Intervals are intersected over time, so one that someone sees shows the errors of all before it. The
last ones are seen one by one: there an interval that missed the mean can meet what the rest can
still make, and its ends are swapped. 2,000 nights whose true rate is alpha have more than
`MOST_FALSE` false ones with probability 1/1000.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

from tasks.planning.dataset import problem_order
from tests.bench.sequence import wins_and_losses
from warehouse.comparison.decisions import hold_together
from warehouse.comparison.sequential import Decision, confidence_interval, decide, e_values

pytestmark = [pytest.mark.slow, pytest.mark.long]

N, N_NIGHTS, ALPHA, MARGIN = 200, 2_000, 0.05, 0.03
MOST_FALSE = int(binom.ppf(0.999, N_NIGHTS, ALPHA))
SEEN = (N // 3, 2 * N // 3, N - 15, N - 5, N - 2, N - 1)
"""Numbers of problems after which someone looks."""

Night = Callable[[np.random.Generator], np.ndarray]
"""Draws the differences of all problems in the order asked."""


def is_false(differences: np.ndarray, strata: np.ndarray | None = None) -> bool:
    """Whether an interval of the night misses the mean, or a decision by it says what the mean does
    not.
    """
    true = round(float(differences.mean()), 12)
    return any(_misses(confidence_interval(differences[:n], N, ALPHA, strata), true) for n in SEEN)


def _misses(interval: tuple[float, float], true: float) -> bool:
    decision = decide(interval, MARGIN, is_all_asked=False)
    is_right = {
        "better": true > 0,
        "worse": true < 0,
        "equivalent": abs(true) < MARGIN,
        None: True,
    }[decision]
    return not (is_right and interval[0] <= true <= interval[1])


def n_false(night: Night, seed: int = 20261125) -> int:
    rng = np.random.default_rng(seed)
    return sum(is_false(night(rng)) for _ in range(N_NIGHTS))


def shuffled(differences: np.ndarray) -> Night:
    return lambda rng: rng.permutation(differences)


@cache
def graded() -> np.ndarray:
    """Shares of 3 to 7 turns, new minus baseline, whose mean is 0."""
    rng = np.random.default_rng(5)
    turns = rng.integers(3, 8, size=N // 2)
    half = rng.integers(-turns, turns + 1) / turns * rng.integers(0, 2, size=N // 2)
    return np.concatenate([half, -half])


@cache
def ramp() -> np.ndarray:
    """A file whose first problems the new model wins and whose last ones it loses: 0 in all."""
    chance = np.linspace(0.3, 0, N // 2)
    wins = np.random.default_rng(6).uniform(size=N // 2) < chance
    return np.concatenate([wins, -wins[::-1].astype(float)]).astype(float)


def in_the_fixed_order(rng: np.random.Generator) -> np.ndarray:
    """The ramp as a run asks it: by the order of subsamples, here with another seed each night."""
    return ramp()[
        [int(name) for name in problem_order(map(str, range(N)), "ramp", int(rng.integers(2**40)))]
    ]


@pytest.mark.parametrize(
    "night",
    [
        pytest.param(shuffled(wins_and_losses(N, 0, 0.04)), id="no-difference-few-discordant"),
        pytest.param(shuffled(wins_and_losses(N, 0, 0.4)), id="no-difference-many-discordant"),
        pytest.param(shuffled(wins_and_losses(N, MARGIN, 0.13)), id="at-the-margin"),
        pytest.param(shuffled(wins_and_losses(N, -MARGIN, 0.13)), id="at-the-lower-margin"),
        pytest.param(in_the_fixed_order, id="drift-within-the-file"),
        pytest.param(shuffled(graded()), id="graded"),
    ],
)
def test_false_decisions_are_at_most_alpha(night: Night) -> None:
    assert n_false(night) <= MOST_FALSE


def test_strata_leave_the_guarantee_as_it_is() -> None:
    """Wins lie where the baseline failed, losses where it passed, as they must."""
    rng = np.random.default_rng(12)
    differences = wins_and_losses(N, MARGIN, 0.13)
    strata = np.where(differences > 0, 0, np.where(differences < 0, 1, np.arange(N) % 2))
    false = 0
    for _ in range(N_NIGHTS):
        order = rng.permutation(N)
        false += is_false(differences[order], strata[order])
    assert false <= MOST_FALSE


def test_without_the_random_order_the_guarantee_is_gone() -> None:
    assert is_false(ramp())


@pytest.mark.parametrize("share", [0.02, 0.3])
def test_problems_found_unscored_on_the_way_are_no_part_of_the_mean(share: float) -> None:
    """They lie in the stratum of the wins; the target is the mean of the scored ones."""
    rng = np.random.default_rng(9)
    differences = wins_and_losses(N, 0, 0.2)
    unscored = np.full(int(share * N), np.nan)
    strata = np.append(np.where(differences > 0, 0, 1), np.zeros(unscored.size, int))
    differences = np.append(differences, unscored)
    false = 0
    for _ in range(N_NIGHTS):
        order = rng.permutation(differences.size)
        for n in (N // 4, N // 2, 3 * N // 4, N - 10):
            low, high = confidence_interval(
                differences[order][:n], differences.size, ALPHA, strata[order]
            )
            if low > 0 or high < 0:
                false += 1
                break
    assert false <= MOST_FALSE


N_CHECKPOINTS, NIGHT_N, NIGHT_MARGIN, BATCH = 4, 120, 0.1, 20
"""Checkpoints of a night that is decided whole; its problems, its margin, and problems between two
looks.
"""


def decided(differences: np.ndarray) -> tuple[Decision | None, float]:
    """Ask batch by batch until decided; returns the decision and its e-value, as the table
    `decisions` has them.
    """
    n_total = differences.size
    for n in [*range(BATCH, n_total, BATCH), n_total]:
        decision = decide(
            confidence_interval(differences[:n], n_total, ALPHA), NIGHT_MARGIN, n == n_total
        )
        if decision is not None:
            claimed = None if decision == "all_asked" else decision
            return claimed, e_values(differences[:n], n_total, NIGHT_MARGIN)[
                claimed
            ] if claimed else 0.0
    raise AssertionError("the last problem decides")


def is_true(decision: str, mean: float) -> bool:
    return {"better": mean > 0, "worse": mean < 0, "equivalent": abs(mean) < NIGHT_MARGIN}.get(
        decision, True
    )


def checkpoints_of_a_night(
    rng: np.random.Generator, means: Sequence[float]
) -> Iterator[np.ndarray]:
    """Draw differences of several checkpoints from one baseline, problem by problem in one order:
    they depend on each other.
    """
    baseline = rng.permutation(np.arange(NIGHT_N) % 2)
    right, wrong = (rng.permutation(np.flatnonzero(baseline == one)) for one in (1, 0))
    for mean in means:
        changed = wins_and_losses(NIGHT_N, mean, abs(mean) + 0.2)
        differences = np.zeros(NIGHT_N)
        differences[wrong[: int((changed > 0).sum())]] = (
            1  # the same problems are won by all checkpoints
        )
        differences[rng.choice(right, size=int((changed < 0).sum()), replace=False)] = -1
        yield differences


@pytest.mark.parametrize(
    "means",
    [
        pytest.param((0.0,) * N_CHECKPOINTS, id="none-differs"),
        pytest.param((0.0, NIGHT_MARGIN, -NIGHT_MARGIN, 0.3), id="of-all-kinds"),
    ],
)
def test_decisions_that_hold_together_are_false_in_a_share_of_alpha_at_most(
    means: Sequence[float],
) -> None:
    rng, shares, n_marked = np.random.default_rng(20261126), 0.0, 0
    for _ in range(N_NIGHTS):
        found = [
            (mean, *decided(one))
            for mean, one in zip(means, checkpoints_of_a_night(rng, means), strict=True)
        ]
        marked = hold_together([e_value for *_, e_value in found], ALPHA)
        chosen = [
            (mean, decision)
            for (mean, decision, _), is_marked in zip(found, marked, strict=True)
            if is_marked
        ]
        n_marked += len(chosen)
        shares += sum(not is_true(decision, mean) for mean, decision in chosen if decision) / max(
            1, len(chosen)
        )
    assert shares <= MOST_FALSE
    assert n_marked > 0
