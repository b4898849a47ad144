"""The table `history`: a metric over the checkpoints of a family.

A row has the trend, the change point, and how much the judges' answers on the bundled drift cases
changed. Trend and change point are rank statistics, so a single outlier in a short series decides
nothing.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING, Any, cast

from warehouse.comparison.paired import ALPHA, adjusted
from warehouse.comparison.pairs import Directions, DriftAnswers, JudgeDrift, Row
from warehouse.comparison.runs import ComparedRun

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


LEAST_POINTS = 3
"""Minimum number of points of a series with a trend or a change point."""
_ENUMERATED = 8
"""Maximum number of points for which the permutation test enumerates all orders."""
_DRAWS = 9_999
_SEED = 20250917


@dataclass(frozen=True)
class Trend:
    """Trend of a series. The values are None for too few points, or if all points are equal.

    `slope` is per step, in the metric's unit. `tau` is in [-1, 1].
    """

    slope: float | None = None
    tau: float | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class Change:
    """Most likely change point: the first point of a new level (0-based).

    `p_value` is the probability that a random order of the points has an equally clear change.
    """

    at: int | None = None
    p_value: float | None = None


def trend(values: Sequence[float]) -> Trend:
    """Return the trend of a series: Mann and Kendall's test, and the median of its slopes.

    Source: Mann 1945, "Nonparametric tests against trend", Econometrica 13; Sen 1968, "Estimates of
    the regression coefficient based on Kendall's tau", JASA 63.
    """
    if len(values) < LEAST_POINTS or len(set(values)) == 1:
        return Trend()
    from scipy.stats import kendalltau, theilslopes

    steps = range(len(values))
    slope, *_ = cast("tuple[float, ...]", theilslopes(values, steps))
    tau, p_value = cast("tuple[float, float]", kendalltau(steps, values))
    return Trend(float(slope), float(tau), float(p_value))


def change(values: Sequence[float]) -> Change:
    """Return the most likely change point of a series.

    It is the cut with the largest of Pettitt's |U|, which for ranks R of t points of T is
    |2 (R1 + ... + Rt) - t (T + 1)|.

    The p-value is the share of orders of the same points whose largest |U| is at least as large: of
    all orders up to 8 points, of 9,999 seeded random ones beyond. (Pettitt's own formula is far too
    large for so few points.)

    Source: Pettitt 1979, "A non-parametric approach to the change-point problem", Applied
    Statistics 28.
    """
    if len(values) < LEAST_POINTS or len(set(values)) == 1:
        return Change()
    from scipy.stats import rankdata

    ranks = tuple(float(rank) for rank in rankdata(values))
    cuts = [abs(2 * math.fsum(ranks[:t]) - t * (len(ranks) + 1)) for t in range(1, len(ranks))]
    return Change(cuts.index(max(cuts)) + 1, _share_as_clear(max(cuts), tuple(sorted(ranks))))


def is_steady(values: Sequence[float], at: int) -> bool:
    """Return whether a straight line describes a series better than one step before point `at`.

    The sums of absolute residuals, from Theil and Sen's line and from the medians on both sides of
    the step, are compared by the Bayesian information criterion for Laplace errors. The step has
    one parameter more.

    Source: Schwarz 1978, "Estimating the dimension of a model", Annals of Statistics 6.
    """
    from statistics import median

    slope = trend(values).slope or 0.0
    flat = [value - slope * step for step, value in enumerate(values)]
    of_line = math.fsum(abs(value - median(flat)) for value in flat)
    of_step = math.fsum(
        abs(value - median(part)) for part in (values[:at], values[at:]) for value in part
    )
    return of_line <= of_step * len(values) ** (1 / (2 * len(values)))


@lru_cache(maxsize=4096)
def _share_as_clear(clearest: float, ranks: tuple[float, ...]) -> float:
    import numpy as np

    size = len(ranks)
    if size <= _ENUMERATED:
        orders = np.array(list(permutations(ranks)))
    else:
        orders = np.random.default_rng(_SEED).permuted(np.tile(ranks, (_DRAWS, 1)), axis=1)
    cuts = np.abs(2 * orders.cumsum(axis=1)[:, :-1] - np.arange(1, size) * (size + 1))
    n_as_clear = int((cuts.max(axis=1) >= clearest - 1e-9).sum())
    return n_as_clear / len(orders) if size <= _ENUMERATED else (n_as_clear + 1) / (len(orders) + 1)


Metric = tuple[str, int]
"""(metric, its version). Values of two versions are not one series."""
Results = Mapping[str, Mapping[Metric, Mapping[str, Any]]]
"""Run id -> metric -> mean, interval and counts, from the leaderboard."""


@dataclass(frozen=True)
class _Point:
    """Checkpoint of the series with its result. `position` counts from 1."""

    position: int
    run: ComparedRun
    result: Mapping[str, Any]


@dataclass(frozen=True)
class _Line:
    """One metric over the checkpoints of a series."""

    points: tuple[_Point, ...]
    trend: Trend
    change: Change

    @property
    def measured(self) -> tuple[_Point, ...]:
        return _measured(self.points)


def read_results(connection: "DuckDBPyConnection") -> Results:
    """Return the leaderboard rows of every published run."""
    results: dict[str, dict[Metric, Mapping[str, Any]]] = {}
    for run_id, metric, version, *numbers in connection.execute(
        "select run_id, metric, metric_version, mean, ci_low, ci_high, n, n_unscored from "
        "leaderboard order by all"
    ).fetchall():
        names = ("mean", "ci_low", "ci_high", "n", "n_unscored")
        results.setdefault(run_id, {})[metric, version] = dict(zip(names, numbers, strict=True))
    return results


def history_rows(
    checkpoints: Sequence[Sequence[ComparedRun]],
    results: Results,
    directions: Directions,
    drift_answers: DriftAnswers,
) -> list[Row]:
    """Return the rows of `history` of one series. The latest run of a checkpoint counts.

    Judges' answers on the drift cases are compared with those at the previous checkpoint. p-values
    are adjusted over the metrics of the series.
    """
    runs = [max(members, key=lambda run: (run.finished_at, run.run_id)) for members in checkpoints]
    drifts = [
        JudgeDrift(),
        *(drift_answers.between(run, before) for before, run in itertools.pairwise(runs)),
    ]
    lines = {
        metric: _line(runs, results, metric)
        for metric in sorted({m for run in runs for m in results.get(run.run_id, {})})
    }
    names = {metric: f"{metric[0]} {metric[1]}" for metric in lines}
    trend_q = adjusted({names[metric]: line.trend.p_value for metric, line in lines.items()})
    change_q = adjusted({names[metric]: line.change.p_value for metric, line in lines.items()})
    return [
        {
            **_place(point, metric, directions.get(metric[0])),
            **drifts[point.position - 1].columns,
            **_tests(line, trend_q[names[metric]], change_q[names[metric]]),
            "is_change_point": point.position
            == _changed_at(line, trend_q[names[metric]], change_q[names[metric]]),
            "threshold": point.run.threshold_of(metric[0]),
        }
        for metric, line in lines.items()
        for point in line.points
    ]


def _line(runs: Sequence[ComparedRun], results: Results, metric: Metric) -> _Line:
    points = tuple(
        _Point(position, run, result)
        for position, run in enumerate(runs, start=1)
        if (result := results.get(run.run_id, {}).get(metric)) is not None
    )
    means = [point.result["mean"] for point in _measured(points)]
    return _Line(points, trend(means), change(means))


def _measured(points: Sequence[_Point]) -> tuple[_Point, ...]:
    return tuple(point for point in points if point.result["mean"] is not None)


def _changed_at(line: _Line, trend_q: float | None, change_q: float | None) -> int | None:
    """Return the position of the first checkpoint of a new level, or None without a change point.

    A steady decline or rise has none, although the test for a change point finds one in it.
    """
    at = line.change.at
    if at is None or change_q is None or change_q >= ALPHA:
        return None
    has_trend = trend_q is not None and trend_q < ALPHA
    is_line = has_trend and is_steady([point.result["mean"] for point in line.measured], at)
    return None if is_line else line.measured[at].position


def _place(point: _Point, metric: Metric, better: str | None) -> Row:
    run = point.run
    return {
        **run.columns,
        "series": run.series[:12],
        "metric": metric[0],
        "metric_version": metric[1],
        "better": better,
        "position": point.position,
        "first_seen": run.first_seen,
        **point.result,
        "sandbox": run.sandbox,
        "isolated": run.isolated,
    }


def _tests(line: _Line, trend_q: float | None, change_q: float | None) -> Row:
    return {
        "n_points": len(line.measured),
        "trend_slope": line.trend.slope,
        "trend_tau": line.trend.tau,
        "trend_p": line.trend.p_value,
        "trend_q": trend_q,
        "change_p": line.change.p_value,
        "change_q": change_q,
    }
