"""95% confidence intervals of mean scores, as DuckDB functions `interval_low` and `interval_high`.

Scores of one problem are not independent: its turns and samples share its difficulty. They form a
cluster.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

from schemas.grouping import grouped

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CONFIDENCE = 0.95
RESAMPLES = 2000
SEED = 20250917
_CHUNK = 1_000_000

Interval = tuple[float, float]


def interval(
    values: Sequence[float], clusters: Sequence[str], *, is_share: bool = True
) -> Interval | None:
    """Return the 95% interval of the mean of `values`.

    If the values are shares, all are 0 or 1, and each has a cluster of its own, this is a Wilson
    interval. Otherwise it is a cluster bootstrap. If all shares are 0, or all are 1, a bootstrap
    cannot vary. Each cluster then counts as one trial of a Wilson interval: eight problems that all
    pass do not prove a pass rate of exactly 1.

    Args:
        values: scored values, in any order.
        clusters: the problem of each value.
        is_share: whether the metric is a share in [0, 1]. False for counts and ratings.

    Returns:
        (low, high). None without values, with a single cluster, or if all clusters have the same
        mean, since resampling is then uninformative.

    Raises:
        ValueError: the numbers of values and clusters differ.
    """
    if len(values) != len(clusters):
        raise ValueError(
            f"{len(values)} values and {len(clusters)} clusters: give one cluster for each value"
        )
    if not values:
        return None
    n_clusters = len(set(clusters))
    shares = is_share and all(value in (0.0, 1.0) for value in values)
    if shares and n_clusters == len(values):
        return wilson(int(sum(values)), len(values))
    if n_clusters < 2:
        return None
    if shares and len(set(values)) == 1:
        return wilson(int(values[0]) * n_clusters, n_clusters)
    low, high = cluster_bootstrap(values, clusters)
    return (low, high) if low < high else None


def wilson(k: int, n: int) -> Interval:
    """Return the 95% Wilson score interval of k successes in n trials, within [0, 1].

    Raises:
        ValueError: k < 0, k > n, or n = 0.

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference",
    JASA 22. The formula is written out, since importing scipy.stats would delay a publication by
    half a second. A test compares it with scipy.
    """
    _check_trials(k, n)
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    centre = (k + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * math.sqrt(k * (n - k) / n + z * z / 4)
    return (0.0 if k == 0 else centre - half), (1.0 if k == n else centre + half)


def exact_binomial(k: int, n: int) -> Interval:
    """Return the exact 95% interval of k successes in n trials, within [0, 1].

    Raises:
        ValueError: k < 0, k > n, or n = 0.

    Source: Clopper and Pearson 1934, "The use of confidence or fiducial limits illustrated in the
    case of the binomial", Biometrika 26. The ends at k = 0 and k = n are written out: most runs
    have no forgery, and need no import of scipy.
    """
    _check_trials(k, n)
    tail = (1 - CONFIDENCE) / 2
    edge = tail ** (1 / n)
    if k in (0, n):
        return (0.0 if k == 0 else edge), (1.0 if k == n else 1 - edge)
    from scipy.special import betaincinv

    return float(betaincinv(k, n - k + 1, tail)), float(betaincinv(k + 1, n - k, 1 - tail))


def _check_trials(k: int, n: int) -> None:
    if not 0 <= k <= n or n == 0:
        raise ValueError(f"{k} successes in {n} trials: give n of at least 1, and k from 0 to n")


def cluster_bootstrap(values: Sequence[float], clusters: Sequence[str]) -> Interval:
    """Return the 95% percentile interval of the mean, by drawing clusters with replacement.

    A resample's mean is the sum of the values of its clusters divided by their number. So the
    interval belongs to the plain mean also if clusters differ in size. If all clusters have one
    size, this is the mean of the clusters' means. 2,000 resamples with a fixed seed: equal values
    give equal intervals in every process and in any order.

    Source: Field and Welsh 2007, "Bootstrapping clustered data", JRSS B 69 (the cluster bootstrap);
    Efron and Tibshirani 1993, "An Introduction to the Bootstrap", chapter 13 (percentile
    intervals).
    """
    import numpy as np

    groups = sorted_groups(values, clusters)
    sums = np.array([math.fsum(group) for group in groups.values()])
    sizes = np.array([len(group) for group in groups.values()], dtype=float)
    generator = np.random.default_rng(SEED)
    means: list[float] = []
    chunk = max(1, _CHUNK // len(groups))
    for start in range(0, RESAMPLES, chunk):
        drawn = generator.integers(
            0, len(groups), size=(min(chunk, RESAMPLES - start), len(groups))
        )
        means.extend((sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)).tolist())
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def sorted_groups(values: Sequence[float], clusters: Sequence[str]) -> Mapping[str, list[float]]:
    """Return cluster -> its values, clusters in the order of their names."""
    return dict(sorted(grouped(zip(clusters, values, strict=True)).items()))


def register_intervals(connection: "DuckDBPyConnection") -> None:
    """Register the interval functions on a connection.

    `interval_low(values DOUBLE[], clusters VARCHAR[], is_share BOOLEAN)` and `interval_high` are
    NULL if there is no interval. `exact_low(k BIGINT, n BIGINT)` and `exact_high` call
    `exact_binomial`, and are NULL for n = 0.

    Only this connection needs them: marts store their results, so readers need no function of
    Parley's.
    """
    from duckdb.func import SPECIAL

    answers: dict[bytes, Interval | None] = {}

    def answer(
        values: Sequence[float] | None, clusters: Sequence[str] | None, is_share: bool
    ) -> Interval | None:
        if not values or not clusters:
            return None
        arguments = repr((values, clusters, is_share))
        key = hashlib.sha256(arguments.encode("utf-8", "surrogatepass")).digest()
        if key not in answers:
            answers[key] = interval(values, clusters, is_share=is_share)
        return answers[key]

    def functions(at: int) -> tuple[Callable[..., float | None], Callable[..., float | None]]:
        def end(
            values: Sequence[float] | None, clusters: Sequence[str] | None, is_share: bool
        ) -> float | None:
            both = answer(values, clusters, is_share)
            return None if both is None else both[at]

        def exact_end(k: int, n: int) -> float | None:
            return exact_binomial(k, n)[at] if n else None

        return end, exact_end

    kinds = (("DOUBLE[]", "VARCHAR[]", "BOOLEAN"), ("BIGINT", "BIGINT"))
    for at, side in enumerate(("low", "high")):
        for name, end, parameters in zip(("interval", "exact"), functions(at), kinds, strict=True):
            connection.create_function(
                f"{name}_{side}", end, list(parameters), "DOUBLE", null_handling=SPECIAL
            )
