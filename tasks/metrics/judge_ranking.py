"""Agreement of a judge's ranking of systems with people's (Dialogue-SWEBench section 7.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

ALPHA = 0.05
Ratings = Mapping[str, Mapping[str, float]]
"""System -> rated item -> rating."""


@dataclass(frozen=True)
class RankAccuracy:
    """Counts of the pairs of systems, and of those that judge and people order in the same way."""

    n_pairs: int
    """Pairs whose ratings by people differ significantly."""
    n_agreed: int
    """Pairs among `n_pairs` that the judge orders in the same way."""
    n_compared: int
    """Pairs with ratings of the same items."""

    @property
    def accuracy(self) -> float | None:
        """Share `n_agreed` / `n_pairs`; None without pairs."""
        return self.n_agreed / self.n_pairs if self.n_pairs else None


def rank_accuracy(people: Ratings, judge: Ratings, alpha: float = ALPHA) -> RankAccuracy:
    """Compare all pairs of systems on the items that people and the judge rated for both.

    A pair counts if a Wilcoxon signed rank test of people's ratings, paired by item, gives
    p < alpha; zero differences are ranked, then dropped (Pratt 1959). A judge whose mean difference
    is 0 does not agree.

    Source: section 7.3, after Kocmi et al. 2021.
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
