"""Does a judge order systems as people do? Rank accuracy over pairs that people tell apart (Dialogue-SWEBench section 7.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

ALPHA = 0.05
Ratings = Mapping[str, Mapping[str, float]]
"""System -> thing that was rated -> rating."""


@dataclass(frozen=True)
class RankAccuracy:
    """Share of the pairs of systems that a judge orders as people do."""

    n_pairs: int
    """Pairs that people tell apart."""
    n_agreed: int
    n_compared: int
    """Pairs with ratings of the same things."""

    @property
    def accuracy(self) -> float | None:
        """None where people tell no pair apart."""
        return self.n_agreed / self.n_pairs if self.n_pairs else None


def rank_accuracy(people: Ratings, judge: Ratings, alpha: float = ALPHA) -> RankAccuracy:
    """Compare all pairs of systems on what both were rated on by people and by the judge.

    People tell a pair apart where a Wilcoxon signed rank test of their ratings, paired by the thing rated, gives p < alpha; zero
    differences are ranked, then dropped (Pratt 1959). A judge whose mean difference is 0 agrees with nobody.

    Source: section 7.3, after Kocmi et al. 2021.
    """
    n_pairs = n_agreed = n_compared = 0
    for first, second in combinations(sorted(people.keys() & judge.keys()), 2):
        both = sorted(
            people[first].keys()
            & people[second].keys()
            & judge[first].keys()
            & judge[second].keys()
        )
        if not both:
            continue
        n_compared += 1
        told = [people[first][thing] - people[second][thing] for thing in both]
        if not differ(told, alpha):
            continue
        n_pairs += 1
        judged = fmean(judge[first][thing] - judge[second][thing] for thing in both)
        n_agreed += judged * fmean(told) > 0
    return RankAccuracy(n_pairs, n_agreed, n_compared)


def differ(differences: list[float], alpha: float = ALPHA) -> bool:
    """Whether paired differences are told from chance, two-sided. Nothing but zeros is not.

    Source: scipy's Wilcoxon test with `zero_method="pratt"`.
    """
    if not any(differences):
        return False
    from scipy.stats import wilcoxon

    found: Any = wilcoxon(differences, zero_method="pratt")
    return float(found.pvalue) < alpha
