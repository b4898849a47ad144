"""Cohen's kappa of two raters, plain and quadratically weighted, with 95% intervals. The numbers are scikit-learn's."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

Mark = float | str
"""A rating: a number or a word."""
Marked = tuple[str, Mark, Mark]
"""(episode, the first one's mark, the second one's) of one thing that both rated."""

CONFIDENCE = 0.95
MOST_STEPS = 200
"""Steps from the lowest number of a scale to its highest, above which it is no scale of ratings."""
NOTHING_SHARED = "nothing was rated by both"
ONE_CATEGORY = "both gave one and the same rating throughout: chance alone explains all of it"
WORDS = "words have no distance"
NO_SCALE = f"the numbers do not lie on one scale of at most {MOST_STEPS} equal steps"


@dataclass(frozen=True)
class Kappa:
    """One kappa. Without a value there is a reason, and no interval."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    undefined_because: str | None = None


def kappa(marked: Sequence[Marked]) -> Kappa:
    """Cohen's kappa: agreement on the same mark, beyond what chance would give.

    Returns:
        A value in [-1, 1] and its interval; see `_with_interval`. Undefined where nothing was rated by both, and where both gave
        one mark throughout (0 / 0): that is neither 0 nor 1.

    Source: Cohen 1960, "A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20.
    """
    places = {
        mark: place
        for place, mark in enumerate(sorted({m for _, *both in marked for m in both}, key=str))
    }
    return _with_interval(
        [(episode, places[a], places[b]) for episode, a, b in marked], len(places), None
    )


def weighted_kappa(marked: Sequence[Marked]) -> Kappa:
    """Quadratically weighted kappa: a disagreement counts by the square of the numbers' distance.

    The distance is that of the values: of the marks 1, 2 and 5, the last two lie three steps apart, though no one gave 3 or 4.

    Returns:
        As `kappa`. Undefined also for words, and for numbers that lie on no scale of equal steps.

    Source: Cohen 1968, "Weighted kappa: nominal scale agreement with provision for scaled disagreement", Psychological
    Bulletin 70.
    """
    values = sorted({mark for _, *both in marked for mark in both if not isinstance(mark, str)})
    if any(isinstance(mark, str) for _, *both in marked for mark in both):
        return Kappa(undefined_because=WORDS)
    exact = [Fraction(str(value)) for value in values]
    step = _common_step([value - exact[0] for value in exact])
    if step and (exact[-1] - exact[0]) / step > MOST_STEPS:
        return Kappa(undefined_because=NO_SCALE)
    places = {
        value: int((whole - exact[0]) / (step or 1))
        for value, whole in zip(values, exact, strict=True)
    }
    on_scale = [(episode, places[float(a)], places[float(b)]) for episode, a, b in marked]
    return _with_interval(on_scale, max(places.values(), default=0) + 1, "quadratic")


def _common_step(distances: Sequence[Fraction]) -> Fraction:
    """The largest step of which all distances are multiples; 0 where all are 0."""
    bottom = math.lcm(*(distance.denominator for distance in distances))
    return Fraction(math.gcd(*(int(distance * bottom) for distance in distances)), bottom)


Placed = tuple[str, int, int]


def _with_interval(marked: Sequence[Placed], n_places: int, weights: str | None) -> Kappa:
    """The value with a jackknife over episodes: kappa ± t · standard error, within [-1, 1].

    Ratings of one episode's turns share what makes them easy or hard, so whole episodes are left out, one at a time. The
    asymptotic variance takes every rating as a draw of its own and is too narrow then. A bootstrap of 2,000 resamples would take
    seconds a pair with scikit-learn; the jackknife asks once for each different episode, and needs no seed.

    No interval where it tells nothing: fewer than two episodes, no variation, or a kappa that one episode alone makes defined.

    Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", chapter 11; Blackman and Koval 2000, "Interval
    estimation for Cohen's kappa as a measure of agreement", Statistics in Medicine 19.
    """
    if not marked:
        return Kappa(undefined_because=NOTHING_SHARED)
    total = Counter((a, b) for _, a, b in marked)
    value = _score(total, n_places, weights)
    if value is None:
        return Kappa(undefined_because=ONE_CATEGORY)
    of_episode: dict[str, list[tuple[int, int]]] = {}
    for episode, a, b in marked:
        of_episode.setdefault(episode, []).append((a, b))
    alike = Counter(tuple(sorted(pairs)) for pairs in of_episode.values())
    others = [
        (_score(total - Counter(pairs), n_places, weights), n) for pairs, n in sorted(alike.items())
    ]
    without = [one for one, n in others if one is not None for _ in range(n)]
    if len(without) < max(2, len(of_episode)):
        return Kappa(value)
    mean = math.fsum(without) / len(without)
    error = math.sqrt(
        (len(without) - 1) / len(without) * math.fsum((one - mean) ** 2 for one in without)
    )
    if error < 1e-12:
        return Kappa(value)
    from scipy.stats import t

    reach = float(t.ppf((1 + CONFIDENCE) / 2, len(without) - 1)) * error
    return Kappa(value, max(-1.0, value - reach), min(1.0, value + reach))


def _score(pairs: Counter[tuple[int, int]], n_places: int, weights: str | None) -> float | None:
    """scikit-learn's kappa of counted pairs; None where it is undefined."""
    from sklearn.metrics import cohen_kappa_score

    seen = {place for pair in pairs for place in pair}
    if len(seen) < 2:
        return None
    first, second = zip(*pairs, strict=True)
    counts = list(pairs.values())
    return float(
        cohen_kappa_score(
            first, second, labels=range(n_places), weights=weights, sample_weight=counts
        )
    )
