"""Charts as SVG: values with their intervals by turn or level, and early decisions.

This module computes positions. The template draws.
"""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from flows.site.labels import (
    CONTROL,
    MIXED,
    axis_title,
    metric_name,
    metric_of,
    metric_unit,
    place_names,
)
from tasks.metrics.registry import METRICS
from warehouse.descriptions import CurveTable

WIDTH, PLOT, LEFT, TOP, ROOM = 440, 220, 62, 10, 48
"""Width of a chart, height of its plot, and the room left of, above and below the plot for ticks
and axis names."""
_TICKS = 5
_NAME_WIDTH, _LINE_HEIGHT, _SLANT = 20, 13, 0.62
"""Label of a position: maximum characters per line, line height, and height of a slanted label as a
share of its length."""
_CHARACTER = 6.2
_MOST_NUMBERS = 24
"""Maximum number of labelled numeric positions. With more, only every n-th has a label."""
Row = Mapping[str, Any]
Colours = Mapping[str, str]


def charts(rows: Sequence[Row], table: CurveTable, colours: Colours) -> Iterator[dict[str, Any]]:
    """Yield a chart for each setting, table part and measure with values at two positions or more.

    A measure whose value, interval and n are equal at all positions of each run describes the whole
    run, and gets no chart. `CurveTable.parts` names the columns that divide a table into parts.

    Args:
        colours: model -> CSS class of its colour, the same for all charts of the site.
    """
    axis = table.axis
    placed_rows = [
        row
        for row in rows
        if row[axis] is not None and (axis == "turn" or row.get("axis", axis) == axis)
    ]
    keys = ("setting", "dataset_version", *table.parts)

    def key(row: Row) -> tuple[str, ...]:
        return tuple("" if row[name] is None else str(row[name]) for name in keys)

    groups = [
        (place, list(group)) for place, group in groupby(sorted(placed_rows, key=key), key=key)
    ]
    measures = [
        measure
        for measure in table.measures
        if any(_moves(members, table, measure) for _, members in groups)
    ]
    for place, members in groups:
        title = " · ".join(
            text for name, text in zip(keys, place, strict=True) if text and name != "axis"
        )
        for measure in measures:
            drawn = [row for row in members if row[measure] is not None]
            if len({row[axis] for row in drawn}) >= 2:
                yield _chart(title, drawn, table, measure, colours)


def _moves(rows: Sequence[Row], table: CurveTable, measure: str) -> bool:
    """Return whether value, interval or n of a measure differ between positions of some run."""
    counts = (n for n in table.counts[measure] if n is not None)
    columns = [measure, f"{measure}_low", f"{measure}_high", *counts]
    values_by_run: dict[str, set[tuple[Any, ...]]] = {}
    for row in rows:
        if row[measure] is not None:
            values = tuple(row[column] for column in columns)
            values_by_run.setdefault(row["run_id"], set()).add(values)
    return any(len(values) > 1 for values in values_by_run.values())


def _chart(
    title: str, rows: Sequence[Row], table: CurveTable, measure: str, colours: Colours
) -> dict[str, Any]:
    axis, first = table.axis, rows[0]
    places = sorted({row[axis] for row in rows})
    values = [
        v
        for row in rows
        for v in (row[measure], row[f"{measure}_low"], row[f"{measure}_high"])
        if v is not None
    ]
    low, high = min(0.0, *values), max(1.0 if max(values) <= 1 else 0.0, *values)

    def x(place: Any) -> float:
        return round(LEFT + (places.index(place) + 0.5) * (WIDTH - LEFT - 8) / len(places), 1)

    def y(value: float) -> float:
        return round(TOP + (high - value) / ((high - low) or 1) * PLOT, 1)

    axis_name = first.get("axis") or axis
    names = place_names(first["setting"], axis_name, first.get("level") or "")
    ticks = [low + step * (high - low) / (_TICKS - 1) for step in range(_TICKS)]
    metric = metric_of(first["setting"], measure)
    unit = metric_unit(first["setting"], metric)
    shown_places = _places([(place, names.get(place), x(place)) for place in places])
    room = ROOM + max(place["height"] for place in shown_places)
    return {
        "title": title,
        "metric": metric,
        "measure": metric_name(metric),
        "unit": unit,
        "y_title": ", ".join(filter(None, (metric.replace("_", " "), unit))),
        "axis": axis_name,
        "axis_title": axis_title(first["setting"], axis_name),
        "is_line": not names and all(isinstance(place, int) for place in places),
        "places": shown_places,
        "ticks": [(f"{tick:.2f}", y(tick)) for tick in ticks],
        "series": _series(rows, table, measure, colours, names, x, y),
        "width": WIDTH,
        "height": TOP + PLOT + room,
        "bottom": TOP + PLOT,
        "left": LEFT,
        "marks": [],
    }


def _series(
    rows: Sequence[Row],
    table: CurveTable,
    measure: str,
    colours: Colours,
    names: Mapping[Any, str],
    x: Callable[[Any], float],
    y: Callable[[float], float],
) -> list[dict[str, Any]]:
    """Return the curve of each run.

    Args:
        names: position on the axis -> its name, if it has one.
        x: function from a position on the axis to a horizontal coordinate.
        y: function from a value to a vertical coordinate.
    """
    axis, (n, n_unscored) = table.axis, table.counts[measure]
    series: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (row["label"], row["run_id"], row[axis])):
        line = series.setdefault(
            row["run_id"],
            {"label": row["label"], "model": row["model"], "run_id": row["run_id"], "points": []},
        )
        bounds = (row[f"{measure}_low"], row[f"{measure}_high"])
        ends = None if None in bounds else tuple(map(y, bounds))
        point = {
            "x": x(row[axis]),
            "y": y(row[measure]),
            "ends": ends,
            "place": row[axis],
            "value": row[measure],
            "low": bounds[0],
            "high": bounds[1],
            "n": row[n] if n else None,
            "n_unscored": row[n_unscored] if n_unscored else None,
            "name": names.get(row[axis], row[axis]),
            "colour": colours.get(row["model"], CONTROL),
        }
        line["points"].append(point)
    models = set[str]()
    for number, line in enumerate(series.values()):
        used = {point["colour"] for point in line["points"]}
        line["colour"] = used.pop() if len(used) == 1 else MIXED
        line["is_further"] = line["model"] in models  # A second run is dashed, with rings.
        models.add(line["model"])
        # Shifted, so that no interval hides another.
        aside = min(6.0, 24 / len(series)) * (number - (len(series) - 1) / 2)
        for point in line["points"]:
            point["x"] = round(point["x"] + aside, 1)
    return list(series.values())


def _places(places: Sequence[tuple[Any, str | None, float]]) -> list[dict[str, Any]]:
    """Return each position with the lines, slant and height of its label.

    Labels are slanted if they are names, or too long to fit next to each other.
    """
    step = 1 + (len(places) - 1) // _MOST_NUMBERS
    positions: list[dict[str, Any]] = []
    for at, (place, name, x) in enumerate(places):
        lines = [str(place)] if name is None else textwrap.wrap(name, _NAME_WIDTH)
        longest = max(map(len, lines))
        is_slanted = name is not None or longest > 2 * _NAME_WIDTH / len(places)
        height = (
            longest * _CHARACTER * _SLANT + (len(lines) - 1) * _LINE_HEIGHT if is_slanted else 0
        )
        shown = lines if name is not None or not isinstance(place, int) or at % step == 0 else []
        positions.append(
            {
                "place": place,
                "lines": shown,
                "x": x,
                "is_slanted": is_slanted,
                "height": round(height),
            }
        )
    return positions


def history_chart(points: Sequence[Row], colours: Colours) -> dict[str, Any] | None:
    """Return the chart of one metric over the checkpoints of a family.

    Args:
        points: rows of `history` of one series and metric, in their order.
        colours: model -> CSS class of its colour.

    Returns:
        The chart, or None if fewer than two points have a value.
    """
    drawn = [point for point in points if point["mean"] is not None]
    if len(drawn) < 2:
        return None
    rows = [
        {
            "label": point["family"],
            "model": point["model"],
            "run_id": point["family"],
            "setting": point["setting"],
            "checkpoint": point["position"],
            point["metric"]: point["mean"],
            f"{point['metric']}_low": point["ci_low"],
            f"{point['metric']}_high": point["ci_high"],
            "n": point["n"],
            "n_unscored": point["n_unscored"],
        }
        for point in drawn
    ]
    first = drawn[0]
    metric = first["metric"]
    table = CurveTable(
        name="history",
        axis="checkpoint",
        measures=(metric,),
        parts=(),
        counts={metric: ("n", "n_unscored")},
    )
    chart = _chart(f"{first['setting']} · {first['dataset_version']}", rows, table, metric, colours)
    [series] = chart["series"]
    named = {point["position"]: point["event"] for point in drawn if point["event"]}
    marks = [
        {**point, "event": named[point["place"]]}
        for point in series["points"]
        if point["place"] in named
    ]
    return {**chart, "marks": marks}


_RIGHT = 22
"""Room right of the plot of a decision."""
_SETTLED = 0.25
"""Share of the first points, which do not affect the plot's scale and may lie outside the plot.

The first intervals span the metric's whole range, and would flatten the rest of the curve.
"""


def narrowing_charts(decisions: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a chart of each decision whose sequence has at least two points.

    A chart shows how the confidence sequence narrows as tasks are played.

    Args:
        decisions: rows of the table `decisions`.
    """
    return [_narrowing(row) for row in decisions if len(row["sequence"]) >= 2]


def _narrowing(row: Row) -> dict[str, Any]:
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
        "height": TOP + PLOT + ROOM,
    }


def _margin(row: Row) -> tuple[float, float] | None:
    """Return the equivalence margin as (low, high) in the metric's unit.

    Returns None if the metric is not installed.
    """
    if row["metric"] not in METRICS.names():
        return None
    low, high = METRICS.load(row["metric"]).ends
    return -row["margin"] * (high - low), row["margin"] * (high - low)
