"""Cohen's kappa of two raters, plain and quadratically weighted, with 95% intervals.

The values are those of scikit-learn.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

Mark = float | str
"""Rating: a number or a word."""
Marked = tuple[str, Mark, Mark]
"""(episode, mark of the first rater, mark of the second rater) of one item that both rated."""

CONFIDENCE = 0.95
MOST_STEPS = 200
"""Maximum number of steps from the lowest to the highest number of a rating scale."""
NOTHING_SHARED = "both rated no item in common"
ONE_CATEGORY = "both gave the same single rating throughout, which chance alone explains"
WORDS = "words have no distance, so weighted kappa is undefined"
NO_SCALE = f"the numbers are not on a scale of at most {MOST_STEPS} equal steps"


@dataclass(frozen=True)
class Kappa:
    """A kappa with its interval, or the reason why there is none."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    undefined_because: str | None = None


def kappa(marked: Sequence[Marked]) -> Kappa:
    """Return Cohen's kappa: agreement on the same mark, beyond what chance would give.

    Returns:
        A value in [-1, 1] with its interval; see `_with_interval`. Undefined if both rated no item
        in common, or gave one mark throughout (0 / 0, which is neither 0 nor 1).

    Source: Cohen 1960, "A coefficient of agreement for nominal scales", Educational and
    Psychological Measurement 20.
    """
    places = {
        mark: place
        for place, mark in enumerate(sorted({m for _, *both in marked for m in both}, key=str))
    }
    return _with_interval(
        [(episode, places[a], places[b]) for episode, a, b in marked], len(places), None
    )


def weighted_kappa(marked: Sequence[Marked]) -> Kappa:
    """Return the quadratically weighted kappa: a disagreement counts by the square of its distance.

    The distance is that of the values: with the marks 1, 2 and 5, the last two are three steps
    apart, even if no rater gave 3 or 4.

    Returns:
        A kappa as `kappa` returns it. Also undefined for words, and for numbers that are not on a
        scale of equal steps.

    Source: Cohen 1968, "Weighted kappa: nominal scale agreement with provision for scaled
    disagreement", Psychological Bulletin 70.
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
    """Return the largest step of which all distances are multiples; 0 if all distances are 0."""
    bottom = math.lcm(*(distance.denominator for distance in distances))
    return Fraction(math.gcd(*(int(distance * bottom) for distance in distances)), bottom)


Placed = tuple[str, int, int]


def _with_interval(marked: Sequence[Placed], n_places: int, weights: str | None) -> Kappa:
    """Return the value with a jackknife interval over episodes: kappa ± t · standard error.

    The interval is cut to [-1, 1]. Ratings of one episode's turns share its difficulty, so whole
    episodes are left out, one at a time. The asymptotic variance treats every rating as
    independent, and is too narrow. A bootstrap of 2,000 resamples would take seconds per pair with
    scikit-learn. The jackknife computes one kappa per distinct episode, and needs no seed.

    There is no interval with fewer than two episodes, without variation, or if kappa is undefined
    without one of the episodes.

    Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", chapter 11; Blackman and
    Koval 2000, "Interval estimation for Cohen's kappa as a measure of agreement", Statistics in
    Medicine 19.
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
    occurrences = Counter(tuple(sorted(pairs)) for pairs in of_episode.values())
    others = [
        (_score(total - Counter(pairs), n_places, weights), n)
        for pairs, n in sorted(occurrences.items())
    ]
    without = [part for part, n in others if part is not None for _ in range(n)]
    if len(without) < max(2, len(of_episode)):
        return Kappa(value)
    mean = math.fsum(without) / len(without)
    error = math.sqrt(
        (len(without) - 1) / len(without) * math.fsum((part - mean) ** 2 for part in without)
    )
    if error < 1e-12:
        return Kappa(value)
    from scipy.stats import t

    reach = float(t.ppf((1 + CONFIDENCE) / 2, len(without) - 1)) * error
    return Kappa(value, max(-1.0, value - reach), min(1.0, value + reach))


def _score(pairs: Counter[tuple[int, int]], n_places: int, weights: str | None) -> float | None:
    """Return scikit-learn's kappa of counted pairs, or None if it is undefined."""
    from sklearn.metrics import cohen_kappa_score

    present = {place for pair in pairs for place in pair}
    if len(present) < 2:
        return None
    first, second = zip(*pairs, strict=True)
    counts = list(pairs.values())
    return float(
        cohen_kappa_score(
            first, second, labels=range(n_places), weights=weights, sample_weight=counts
        )
    )
