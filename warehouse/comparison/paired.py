"""One metric of two runs, paired by problem: difference, interval, test and detectable effect."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from warehouse.intervals import cluster_bootstrap, sorted_groups

Name = TypeVar("Name", bound=Hashable)
ALPHA, POWER = 0.05, 0.8
"""Significance level of all tests, and the power at which `mde` is stated."""
NOTHING_SHARED = "no score has a value in both runs"
_DIGITS = 12
"""Decimals of a problem's mean difference. Without rounding, equal sums in another order would not
be ties."""


@dataclass(frozen=True)
class Paired:
    """New run minus other run, over one metric's scores of both: columns of `comparisons`.

    A missing difference has a reason.
    """

    mean: float | None = None
    other_mean: float | None = None
    difference: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    """Upper end of the 95% interval. None if resampling is uninformative."""
    n: int = 0
    """Number of score pairs."""
    n_problems: int = 0
    n_unpaired: int = 0
    """Number of scores that only the new run has, and not the other run."""
    n_unpaired_other: int = 0
    """Number of scores that only the other run has."""
    test: str | None = None
    """`mcnemar` or `wilcoxon`."""
    p_value: float | None = None
    q_value: float | None = None
    """p-value, adjusted over the metrics of the two runs."""
    mde: float | None = None
    undefined_because: str | None = None


def paired(values: Sequence[float], others: Sequence[float], problems: Sequence[str]) -> Paired:
    """Compare scores pair by pair.

    The difference is the plain mean over pairs, as the leaderboard's means are. Scores of one
    problem are not independent. So the interval resamples whole problems (`cluster_bootstrap`,
    seeded), and the test has one value per problem.

    Args:
        values: scores of the new run.
        others: scores of the other run, in the same order.
        problems: the problem of each pair.

    Raises:
        ValueError: the numbers of values, other values and problems differ.
    """
    differences = [value - other for value, other in zip(values, others, strict=True)]
    if len(problems) != len(differences):
        raise ValueError(
            f"{len(differences)} pairs and {len(problems)} problems: give one problem for each pair"
        )
    if not differences:
        return Paired(undefined_because=NOTHING_SHARED)
    n = len(differences)
    groups = sorted_groups(differences, problems)
    low, high = cluster_bootstrap(differences, problems) if len(groups) > 1 else (0.0, 0.0)
    is_binary = len(groups) == n and all(score in (0.0, 1.0) for score in (*values, *others))
    return Paired(
        n=n,
        n_problems=len(groups),
        mean=math.fsum(values) / n,
        other_mean=math.fsum(others) / n,
        difference=math.fsum(differences) / n,
        ci_low=low if low < high else None,
        ci_high=high if low < high else None,
        test="mcnemar" if is_binary else "wilcoxon",
        p_value=mcnemar(differences)
        if is_binary
        else wilcoxon([math.fsum(d) / len(d) for d in groups.values()]),
        mde=minimum_detectable_effect(groups),
    )


def mcnemar(differences: Sequence[float]) -> float:
    """Return the exact two-sided p-value of McNemar's test: are wins and losses equally likely?

    Args:
        differences: 1 if only the new run passed, -1 if only the other one did, else 0.

    Returns:
        A value in (0, 1]. It is 1 if all differences are 0.

    Source: McNemar 1947, "Note on the sampling error of the difference between correlated
    proportions", Psychometrika 12.
    """
    from scipy.stats import binomtest

    wins, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def wilcoxon(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test. Zeros are left out.

    The test is exact up to 50 problems without ties and up to 13 with ties. Beyond, it is the
    normal approximation with a correction for ties (scipy).

    Args:
        differences: one for each problem.

    Returns:
        A value in (0, 1]. It is 1 if all differences are 0.

    Source: Wilcoxon 1945, "Individual comparisons by ranking methods", Biometrics Bulletin 1.
    """
    from scipy.stats import wilcoxon as signed_rank

    rounded = [round(difference, _DIGITS) for difference in differences]
    moved = [difference for difference in rounded if difference]
    if not moved:
        return 1.0
    _, p_value = cast("tuple[float, float]", signed_rank(moved))
    return float(p_value)


def minimum_detectable_effect(groups: Mapping[str, Sequence[float]]) -> float | None:
    """Return the smallest true difference found in 80% of cases at the 5% level (two-sided).

    It is (z(0.975) + z(0.8)) times the standard error of the mean over pairs, clustered by problem.

    Returns:
        A value above 0 in the metric's unit. None with fewer than two problems, or without
        variation between them.

    Source: Bloom 1995, "Minimum detectable effects", Evaluation Review 19; Miller 2024, "Adding
    error bars to evals", section 2.2 (the clustered standard error).
    """
    from scipy.stats import norm

    n, n_groups = sum(map(len, groups.values())), len(groups)
    if n_groups < 2:
        return None
    mean = math.fsum(d for group in groups.values() for d in group) / n
    squares = math.fsum((math.fsum(group) - len(group) * mean) ** 2 for group in groups.values())
    error = math.sqrt(n_groups / (n_groups - 1) * squares) / n
    return float(norm.ppf(1 - ALPHA / 2) + norm.ppf(POWER)) * error if error > 1e-12 else None


def adjusted(p_values: Mapping[Name, float | None]) -> dict[Name, float | None]:
    """Return p-values adjusted for the false discovery rate.

    Among tests below a level, the expected share of false discoveries is at most that level.

    Args:
        p_values: name of a test, such as a metric -> p-value. Tests without one stay without.

    Source: Benjamini and Hochberg 1995, "Controlling the false discovery rate", JRSS B 57.
    """
    present = {name: p for name, p in p_values.items() if p is not None}
    if not present:  # In a first run. Importing scipy.stats would take 0.6 s.
        return dict(p_values)
    from scipy.stats import false_discovery_control

    values = false_discovery_control(list(present.values()))
    return {**p_values, **{name: float(q) for name, q in zip(present, values, strict=True)}}
