"""The leaderboard: one matrix per setting, with a row per model and a column per metric."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from flows.site.charts import Colours
from flows.site.labels import CONTROL, better, metric_name, metric_order, metric_range, metric_unit
from tasks.language.providers.registry import is_control
from warehouse.comparison.paired import ALPHA
from warehouse.site_rows import SiteRows

CELL_WIDTH, CELL_HEIGHT, MARGIN = 112, 16, 5
"""Size of the drawing in a cell, and the margin on its left and right, as wide as half a dot."""
Row = Mapping[str, Any]


def matrices(
    board: Sequence[Row], shown: Collection[str], colours: Colours
) -> list[dict[str, Any]]:
    """Return a matrix for each setting, dataset version and share of played tasks, sorted by these.

    Args:
        board: rows of the table `leaderboard` with their labels.
        shown: runs that have a row; see `newest_of_each`.
        colours: model -> CSS class of its colour.
    """

    def key(row: Row) -> tuple[str, str, float]:
        return (
            row["setting"],
            row["dataset_version"],
            1.0 if row["task_share"] is None else row["task_share"],
        )

    rows = sorted((row for row in board if row["run_id"] in shown), key=key)
    return [
        _matrix(f"setting-{at}", list(group), colours)
        for at, (_, group) in enumerate(groupby(rows, key=key), 1)
    ]


def _matrix(anchor: str, rows: Sequence[Row], colours: Colours) -> dict[str, Any]:
    first = rows[0]
    runs: dict[str, dict[str, Row]] = {}
    for row in rows:
        runs.setdefault(row["run_id"], {})[row["metric"]] = row
    order = metric_order(first["setting"])
    measured = {row["metric"] for row in rows}
    metrics = [*(name for name in order if name in measured), *sorted(measured - set(order))]
    main = metrics[0]
    lines = [_line(run, metrics, colours) for run in runs.values()]
    columns = [_column(first["setting"], metric, lines) for metric in metrics]
    for line in lines:
        line["cells"] = [
            _cell(line["results"].get(column["metric"]), column, line["is_control"])
            for column in columns
        ]
    return {
        "anchor": anchor,
        "setting": first["setting"],
        "first": first,
        "main": main,
        "main_name": metric_name(main),
        "better": better(main),
        "columns": columns,
        "lines": _sorted(lines, main),
    }


def _line(results: Mapping[str, Row], metrics: Sequence[str], colours: Colours) -> dict[str, Any]:
    first = next(iter(results.values()))
    ordered = [results[metric] for metric in metrics if metric in results]
    return {
        "run": first,
        "colour": colours.get(first["model"], CONTROL),
        "is_control": is_control(first["model"]),
        "results": results,
        "ordered": ordered,
    }


def _column(setting: str, metric: str, lines: Sequence[Row]) -> dict[str, Any]:
    """Return a column with its scale and the best mean of two or more models.

    The scale is the metric's range. If no installed benchmark states one, values and intervals
    decide. Controls cannot be best: their scores are known beforehand.
    """
    cells = [(line, line["results"][metric]) for line in lines if metric in line["results"]]
    bounds = [
        row[name]
        for _, row in cells
        for name in ("mean", "ci_low", "ci_high")
        if row[name] is not None
    ]
    low, high = metric_range(setting, metric) or (0.0, 1.0)
    means = [row["mean"] for line, row in cells if not line["is_control"]]
    means = [mean for mean in means if mean is not None]
    direction = better(metric)
    has_best = len(means) > 1 and direction is not None
    return {
        "metric": metric,
        "name": metric_name(metric),
        "unit": metric_unit(setting, metric),
        "better": direction,
        "low": min([low, *bounds]),
        "high": max([high, *bounds]),
        "best": (max(means) if direction == "higher" else min(means)) if has_best else None,
    }


def _cell(row: Row | None, column: Row, is_control: bool) -> dict[str, Any]:
    shown = {"row": row, "metric": column["name"], "is_best": False, "dot": None, "ends": None}
    if row is None or row["mean"] is None:
        return shown

    def x(value: float) -> float:
        share = (value - column["low"]) / ((column["high"] - column["low"]) or 1)
        return round(MARGIN + share * (CELL_WIDTH - 2 * MARGIN), 1)

    ends = None if row["ci_low"] is None else (x(row["ci_low"]), x(row["ci_high"]))
    is_best = not is_control and row["mean"] == column["best"]
    return {**shown, "is_best": is_best, "dot": x(row["mean"]), "ends": ends}


def _sorted(lines: Sequence[dict[str, Any]], main: str) -> list[dict[str, Any]]:
    """Return models before controls, each from best to worst by the main metric.

    Rows without a value come last.
    """
    sign = 1 if better(main) == "lower" else -1

    def place(line: Mapping[str, Any]) -> tuple[bool, bool, float, str]:
        mean = line["results"][main]["mean"] if main in line["results"] else None
        rank = 0.0 if mean is None else sign * mean
        return line["is_control"], mean is None, rank, line["run"]["label"]

    return sorted(lines, key=place)


def rivals(matrix: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the leader's row on the main metric, then the row of the best other model, if any."""
    names: set[str] = set()
    for line in matrix["lines"]:
        row = line["results"].get(matrix["main"])
        if line["is_control"] or row is None or row["mean"] is None or row["model"] in names:
            continue
        names.add(row["model"])
        yield row
        if len(names) == 2:
            return


def leading_pairs(rows: SiteRows, matrices: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Yield (second run, leading run) of each setting whose two best runs are comparable."""
    for matrix in matrices:
        best = list(rivals(matrix))
        if (
            len(best) == 2
            and matrix["better"] is not None
            and rows.are_comparable(best[1]["run_id"], best[0]["run_id"])
        ):
            yield best[1]["run_id"], best[0]["run_id"]


def standing(matrix: Row, compared: Mapping[tuple[str, str], Sequence[Row]]) -> dict[str, Any]:
    """Return who leads on a setting's main metric, by how much, and whether that is decided.

    Args:
        matrix: one of `matrices`.
        compared: (old run, new run) -> rows as in the table `comparisons`.

    Returns:
        A dictionary. Its `state` is `controls` (no model has a value), `single` (one model has),
        `undirected` (no value of the metric is better than another), `apart` (the runs are not
        comparable, or share no problem), `decided` or `undecided`.
    """
    best = list(rivals(matrix))
    result = {"matrix": matrix, "leader": None, "second": None, "pair": None, "state": "controls"}
    if not best:
        return result
    result |= {"leader": best[0], "state": "single"}
    if len(best) == 1:
        return result
    result |= {"second": best[1], "state": "undirected" if matrix["better"] is None else "apart"}
    rows = compared.get((best[1]["run_id"], best[0]["run_id"]), ())
    pair = next(
        (row for row in rows if row["metric"] == matrix["main"] and row["difference"] is not None),
        None,
    )
    if pair is None or matrix["better"] is None:
        return result
    gain = pair["difference"] if matrix["better"] == "higher" else -pair["difference"]
    is_decided = gain > 0 and pair["q_value"] is not None and pair["q_value"] <= ALPHA
    return result | {"pair": pair, "state": "decided" if is_decided else "undecided"}
