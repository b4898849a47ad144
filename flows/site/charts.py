"""Curves as SVG of our own: values with their intervals by turn, or by level. Positions only; the template draws."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

WIDTH, HEIGHT, LEFT, BOTTOM = 520, 260, 46, 30
COLOURS = 8
_TICKS = 5
Row = Mapping[str, Any]


def charts(rows: Sequence[Row], axis: str, parts: Sequence[str], measures: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A chart for each setting, part and measure that has values at two places of the axis or more."""
    known = [row for row in rows if row[axis] is not None and (axis == "turn" or row.get("axis", axis) == axis)]
    keys = ("setting", "dataset_version", *parts)

    def key(row: Row) -> tuple[str, ...]:
        return tuple("" if row[name] is None else str(row[name]) for name in keys)

    for place, group in groupby(sorted(known, key=key), key=key):
        members = list(group)
        for measure in measures:
            drawn = [row for row in members if row[measure] is not None]
            if len({row[axis] for row in drawn}) >= 2:
                yield _chart(" · ".join(filter(None, place)), drawn, axis, measure)


def _chart(title: str, rows: Sequence[Row], axis: str, measure: str) -> dict[str, Any]:
    places = sorted({row[axis] for row in rows})
    values = [v for row in rows for v in (row[measure], row[f"{measure}_low"], row[f"{measure}_high"]) if v is not None]
    low, high = min(0.0, *values), max(1.0 if max(values) <= 1 else 0.0, *values)

    def x(place: Any) -> float:
        return round(LEFT + (places.index(place) + 0.5) * (WIDTH - LEFT - 8) / len(places), 1)

    def y(value: float) -> float:
        return round(10 + (high - value) / ((high - low) or 1) * (HEIGHT - BOTTOM - 10), 1)

    series: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (row["model"], row["run_id"], places.index(row[axis]))):
        one = series.setdefault(row["run_id"], {"model": row["model"], "run_id": row["run_id"], "points": []})
        bounds = (row[f"{measure}_low"], row[f"{measure}_high"])
        ends = None if None in bounds else tuple(map(y, bounds))
        n = row.get(f"n_{measure}", row.get("n"))
        point = {"x": x(row[axis]), "y": y(row[measure]), "ends": ends, "place": row[axis], "value": row[measure], "n": n}
        one["points"].append(point | {"low": bounds[0], "high": bounds[1]})
    for number, one in enumerate(series.values()):
        one["colour"] = number % COLOURS
        aside = min(6.0, 24 / len(series)) * (number - (len(series) - 1) / 2)  # so that no interval hides another
        for point in one["points"]:
            point["x"] = round(point["x"] + aside, 1)
    ticks = [low + step * (high - low) / (_TICKS - 1) for step in range(_TICKS)]
    return {
        "title": title,
        "measure": measure.rstrip("_"),
        "axis": axis,
        "is_line": all(isinstance(place, int) for place in places),
        "places": [(place, x(place)) for place in places],
        "ticks": [(f"{tick:.2f}", y(tick)) for tick in ticks],
        "series": list(series.values()),
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
    }
