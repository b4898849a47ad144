"""Curves as SVG of our own: values with their intervals by turn, or by level. Positions only; the template draws."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from warehouse.curves import CurveTable

WIDTH, HEIGHT, LEFT, BOTTOM = 520, 260, 46, 30
COLOURS = 8
_TICKS = 5
Row = Mapping[str, Any]


def charts(rows: Sequence[Row], table: CurveTable) -> Iterator[dict[str, Any]]:
    """A chart for each setting, part and measure that has values at two places of the axis or more.

    A measure that each run has the same at all places, with interval and n, is a figure of the run: no curve is drawn.
    """
    axis = table.axis
    known = [row for row in rows if row[axis] is not None and (axis == "turn" or row.get("axis", axis) == axis)]
    keys = ("setting", "dataset_version", *table.parts)

    def key(row: Row) -> tuple[str, ...]:
        return tuple("" if row[name] is None else str(row[name]) for name in keys)

    groups = [(place, list(group)) for place, group in groupby(sorted(known, key=key), key=key)]
    measures = [measure for measure in table.measures if any(_moves(members, table, measure) for _, members in groups)]
    for place, members in groups:
        title = " · ".join(text for name, text in zip(keys, place, strict=True) if text and name != "axis")
        for measure in measures:
            drawn = [row for row in members if row[measure] is not None]
            if len({row[axis] for row in drawn}) >= 2:
                yield _chart(title, drawn, table, measure)


def _moves(rows: Sequence[Row], table: CurveTable, measure: str) -> bool:
    """Whether a run has other values at one place than at another."""
    columns = [measure, f"{measure}_low", f"{measure}_high", *(n for n in table.counts[measure] if n is not None)]
    seen: dict[str, set[tuple[Any, ...]]] = {}
    for row in rows:
        if row[measure] is not None:
            seen.setdefault(row["run_id"], set()).add(tuple(row[column] for column in columns))
    return any(len(values) > 1 for values in seen.values())


def _chart(title: str, rows: Sequence[Row], table: CurveTable, measure: str) -> dict[str, Any]:
    axis = table.axis
    places = sorted({row[axis] for row in rows})
    values = [v for row in rows for v in (row[measure], row[f"{measure}_low"], row[f"{measure}_high"]) if v is not None]
    low, high = min(0.0, *values), max(1.0 if max(values) <= 1 else 0.0, *values)
    n, n_unscored = table.counts[measure]

    def x(place: Any) -> float:
        return round(LEFT + (places.index(place) + 0.5) * (WIDTH - LEFT - 8) / len(places), 1)

    def y(value: float) -> float:
        return round(10 + (high - value) / ((high - low) or 1) * (HEIGHT - BOTTOM - 10), 1)

    series: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (row["label"], row["run_id"], places.index(row[axis]))):
        one = series.setdefault(row["run_id"], {"label": row["label"], "run_id": row["run_id"], "points": []})
        bounds = (row[f"{measure}_low"], row[f"{measure}_high"])
        ends = None if None in bounds else tuple(map(y, bounds))
        point = {"x": x(row[axis]), "y": y(row[measure]), "ends": ends, "place": row[axis], "value": row[measure]}
        counts = {"n": row[n] if n else None, "n_unscored": row[n_unscored] if n_unscored else None}
        one["points"].append(point | counts | {"low": bounds[0], "high": bounds[1]})
    for number, one in enumerate(series.values()):
        one["colour"] = number % COLOURS
        aside = min(6.0, 24 / len(series)) * (number - (len(series) - 1) / 2)  # so that no interval hides another
        for point in one["points"]:
            point["x"] = round(point["x"] + aside, 1)
    ticks = [low + step * (high - low) / (_TICKS - 1) for step in range(_TICKS)]
    return {
        "title": title,
        "measure": measure.rstrip("_"),
        "axis": rows[0].get("axis") or axis,
        "is_line": all(isinstance(place, int) for place in places),
        "places": [(place, x(place)) for place in places],
        "ticks": [(f"{tick:.2f}", y(tick)) for tick in ticks],
        "series": list(series.values()),
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
    }
