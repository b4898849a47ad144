"""Chart of an early decision: how its confidence sequence narrows as tasks are played."""

from collections.abc import Mapping, Sequence
from typing import Any

from flows.site.charts import LEFT, PLOT, TOP, WIDTH
from flows.site.labels import metric_name
from tasks.metrics.registry import METRICS

_RIGHT, _ROOM, _TICKS = 22, 48, 5
"""Room right of the plot and below it, and number of ticks per axis."""
_SETTLED = 0.25
"""Share of the first points, which do not affect the plot's scale and may lie outside the plot.

The first intervals span the metric's whole range, and would flatten the rest of the curve.
"""
Row = Mapping[str, Any]


def narrowing_charts(decisions: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a chart of each decision whose sequence has at least two points.

    Args:
        decisions: rows of the table `decisions`.
    """
    return [_chart(row) for row in decisions if len(row["sequence"]) >= 2]


def _chart(row: Row) -> dict[str, Any]:
    points, n_total = row["sequence"], row["n_total"]
    margin = _margin(row)
    settled = points[int(len(points) * _SETTLED) :]
    limit = 1.1 * max(
        abs(value)
        for value in (*(margin or ()), *(p[end] for p in settled for end in ("low", "high")))
    )
    limit = limit or 1.0  # All tasks were played, and no difference was found.

    def x(n: int) -> float:
        return round(LEFT + n / n_total * (WIDTH - LEFT - _RIGHT), 1)

    def y(value: float) -> float:
        return round(TOP + (limit - max(-limit, min(limit, value))) / (2 * limit) * PLOT, 1)

    upper = [(x(p["n"]), y(p["high"])) for p in points]
    lower = [(x(p["n"]), y(p["low"])) for p in points]
    ticks = [limit * (1 - 2 * step / (_TICKS - 1)) for step in range(_TICKS)]
    return {
        "title": f"{metric_name(row['metric'])} against {row['baseline_model']}",
        "decision": row["decision"],
        "n_asked": row["n_asked"],
        "n_total": n_total,
        "share": row["n_asked"] / n_total if n_total else 0.0,
        "alpha": row["alpha"] / row["n_metrics"],
        "last": points[-1],
        "upper": upper,
        "lower": lower,
        "band": [*upper, *reversed(lower)],
        "zero": y(0.0),
        "margins": [] if margin is None else [y(value) for value in margin],
        "decided": x(row["n_asked"]),
        "is_late": row["n_asked"] > n_total / 2,
        "ticks": [
            (f"{tick:+.2f}" if step != _TICKS // 2 else "0", y(tick))
            for step, tick in enumerate(ticks)
        ],
        "shares": [
            (f"{step / (_TICKS - 1):.0%}", x(round(n_total * step / (_TICKS - 1))))
            for step in range(_TICKS)
        ],
        "left": LEFT,
        "right": WIDTH - _RIGHT,
        "top": TOP,
        "bottom": TOP + PLOT,
        "width": WIDTH,
        "height": TOP + PLOT + _ROOM,
    }


def _margin(row: Row) -> tuple[float, float] | None:
    """Return the equivalence margin as (low, high) in the metric's unit.

    Returns None if the metric is not installed.
    """
    if row["metric"] not in METRICS.names():
        return None
    low, high = METRICS.load(row["metric"]).ends
    return -row["margin"] * (high - low), row["margin"] * (high - low)
