"""The table `agreement`: how far people agree with each other, and with the judges.

Agreement is Cohen's kappa of two raters, plain and quadratically weighted, with 95% intervals. The
values are those of scikit-learn.
"""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

from schemas.grouping import grouped
from warehouse import sql_files

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


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
    of_episode = grouped((episode, (a, b)) for episode, a, b in marked)
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


CONSENSUS, EVERYBODY = "consensus", "all raters"
POOLED = "all dimensions"
"""Value of `dimension` in rows that pool the ratings of several dimensions."""
Item = tuple[str, int] | tuple[str, int, str]
"""(episode, turn). If several dimensions are pooled, the dimension too."""
Marks = Mapping[Item, Mark]
"""Rated item -> rating."""
Row = tuple[str | int | float | None, ...]


def refresh_agreement(connection: "DuckDBPyConnection") -> None:
    """Compute all rows of `agreement` again from the ratings and judgements in the warehouse."""
    people, judges = _read(connection, "rated_by_people"), _read(connection, "rated_by_judges")
    rows = [
        row for rated in people for row in _rows_of(rated, people[rated], judges.get(rated, {}))
    ]
    for rubric in dict.fromkeys(rubric for rubric, _ in people):
        rows += pooled_rows(rubric, people, judges)
    connection.execute("delete from agreement")
    if rows:
        connection.executemany(
            f"insert into agreement values ({', '.join('?' * len(rows[0]))})", rows
        )


def _read(
    connection: "DuckDBPyConnection", name: str
) -> dict[tuple[str, str], dict[str, dict[Item, Mark]]]:
    """Return (rubric, dimension) -> rater -> ratings."""
    marks_by_dimension: dict[tuple[str, str], dict[str, dict[Item, Mark]]] = {}
    for rubric, dimension, who, episode, turn, value, label in connection.execute(
        sql_files.load("queries", name).statement
    ).fetchall():
        marks = marks_by_dimension.setdefault((rubric, dimension), {}).setdefault(who, {})
        marks[episode, turn] = label if value is None else value
    return marks_by_dimension


def _rows_of(
    rated: tuple[str, str], people: Mapping[str, Marks], judges: Mapping[str, Marks]
) -> list[Row]:
    pairs = [("raters", a, b, people[a], people[b]) for a, b in combinations(sorted(people), 2)]
    pairs += [
        ("rater_judge", a, b, people[a], judges[b]) for a in sorted(people) for b in sorted(judges)
    ]
    if len(people) > 1:
        agreed = consensus(tuple(people.values()))
        pairs += [("consensus_judge", CONSENSUS, b, agreed, judges[b]) for b in sorted(judges)]
    return [
        _row(rated, pair, a, b, [(first, second)]) for pair, a, b, first, second in pairs if first
    ]


Rated = Mapping[tuple[str, str], Mapping[str, Marks]]


def pooled_rows(rubric: str, people: Rated, judges: Rated) -> list[Row]:
    """Return rows over all dimensions of a rubric, and over all raters.

    Every rating counts once, as in the one kappa of the paper. Numeric dimensions are pooled, and
    dimensions of words are left out. If a rubric has only dimensions of words, these are pooled.
    Pairs of raters are concatenated, each pair in alphabetical order. With one dimension and two
    raters there is nothing to pool, and no row.

    Source: Talk2Code, Subjective Evaluation: three experts, 200 dialogues, six dimensions; one
    kappa among them, one with GPT-4o.
    """
    dimensions = _of_one_kind(
        {dimension: marks for (name, dimension), marks in people.items() if name == rubric}
    )
    raters, theirs = _pooled(rubric, dimensions, people), _pooled(rubric, dimensions, judges)
    if len(dimensions) < 2 and len(raters) < 3:
        return []
    rated = (rubric, POOLED)
    rows = _rows_of(rated, raters, theirs) if len(dimensions) > 1 else []
    if len(raters) > 2:
        pairs = [(raters[a], raters[b]) for a, b in combinations(sorted(raters), 2)]
        rows.append(_row(rated, "raters", EVERYBODY, EVERYBODY, pairs))
    if len(raters) > 1:
        rows += [
            _row(
                rated,
                "rater_judge",
                EVERYBODY,
                judge,
                [(raters[name], theirs[judge]) for name in sorted(raters)],
            )
            for judge in sorted(theirs)
        ]
    return rows


def _of_one_kind(dimensions: Mapping[str, Mapping[str, Marks]]) -> tuple[str, ...]:
    """Return the dimensions with numbers or, if none has numbers, those with words."""
    has_words = {
        name: any(isinstance(mark, str) for marks in raters.values() for mark in marks.values())
        for name, raters in dimensions.items()
    }
    return tuple(name for name, words in sorted(has_words.items()) if not words) or tuple(
        sorted(has_words)
    )


def _pooled(rubric: str, dimensions: Sequence[str], rated: Rated) -> dict[str, dict[Item, Mark]]:
    """Return rater -> ratings of all dimensions."""
    pooled: dict[str, dict[Item, Mark]] = {}
    for dimension in dimensions:
        for who, marks in rated.get((rubric, dimension), {}).items():
            pooled.setdefault(who, {}).update(
                {(*thing[:2], dimension): mark for thing, mark in marks.items()}
            )
    return pooled


def consensus(people: Sequence[Marks]) -> dict[Item, Mark]:
    """Return the common mark of each item that two or more raters rated.

    The common mark of numbers is their median. Of two middle numbers it is the lower one, since a
    rater gave it. The common mark of words is the one that most raters chose; items whose words tie
    have none.
    """
    marks_by_item = grouped(pair for marks in people for pair in marks.items())
    common = {thing: _common(marks) for thing, marks in marks_by_item.items() if len(marks) > 1}
    return {thing: mark for thing, mark in common.items() if mark is not None}


def _common(marks: Sequence[Mark]) -> Mark | None:
    numbers = [mark for mark in marks if not isinstance(mark, str)]
    if len(numbers) == len(marks):
        return statistics.median_low(numbers)
    (word, most), *others = Counter(marks).most_common()
    return None if others and others[0][1] == most else word


def _row(
    rated: tuple[str, str], pair: str, a: str, b: str, sides: Sequence[tuple[Marks, Marks]]
) -> Row:
    """Return the row of two raters, or of people and a judge.

    `n_missing` counts the items that only one of two raters rated, or that a person rated and the
    judge did not.

    Args:
        rated: rubric and dimension.
        pair: kind of the two, such as `raters`.
        a: name of the first.
        b: name of the second.
        sides: pairs (marks of the first, marks of the second), which are concatenated.
    """
    marked = [
        (thing[0], x[thing], y[thing]) for x, y in sides for thing in sorted(x.keys() & y.keys())
    ]
    plain, weighted = kappa(marked), weighted_kappa(marked)
    n_missing = sum(
        len(x.keys() ^ y.keys() if pair == "raters" else x.keys() - y.keys()) for x, y in sides
    )
    return (
        *(*rated, pair, a, b),
        *(len(marked), n_missing, len({episode for episode, _, _ in marked})),
        sum(x == y for _, x, y in marked) / len(marked) if marked else None,
        *(plain.value, plain.low, plain.high, plain.undefined_because),
        *(weighted.value, weighted.low, weighted.high, weighted.undefined_because),
    )
