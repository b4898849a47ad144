"""Names and units that a reader sees instead of columns and positions: of metrics, axes and places on an axis."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from tasks.benchmarks.registry import BENCHMARKS
from tasks.metrics.registry import METRICS

if TYPE_CHECKING:
    from tasks.benchmarks.contract import Benchmark
    from tasks.benchmarks.results import Axis

_AXES = {
    "turn": "turn (answers of the model)",
    "level": "level of the tasks",
    "checkpoint": "checkpoint (in their order)",
}
_SHARE = (0.0, 1.0)


@cache
def _benchmark(setting: str) -> "Benchmark | None":
    """Return the benchmark of a setting; None where it is not installed here."""
    name = setting.partition(".")[0]
    return BENCHMARKS.load(name) if name in BENCHMARKS.names() else None


def metric_order(setting: str) -> tuple[str, ...]:
    """Return the metrics of a setting's benchmark, the main one first."""
    found = _benchmark(setting)
    return found.all_metrics if found is not None else ()


def metric_of(setting: str, column: str) -> str:
    """Return the metric of a result table's column."""
    found = _benchmark(setting)
    return (found.results.measures if found is not None else {}).get(column, column.rstrip("_"))


def metric_name(metric: str) -> str:
    """Return a metric's name in words, with its short heading where it has another one."""
    words = metric.replace("_", " ")
    heading = METRICS.load(metric).heading if metric in METRICS.names() else words
    return words if heading.lower() in (words.lower(), metric.lower()) else f"{words} ({heading})"


def better(metric: str) -> str | None:
    """Return `higher` or `lower`, whichever is better; None where neither is, or nobody here knows the metric."""
    return METRICS.load(metric).better if metric in METRICS.names() else None


def metric_range(setting: str, metric: str) -> tuple[float, float] | None:
    """Return the lowest and the highest value of a metric; None where no benchmark here measures it."""
    found = _benchmark(setting)
    if found is None or metric not in found.all_metrics:
        return None
    return found.scores.ranges.get(metric, _SHARE)


def metric_unit(setting: str, metric: str) -> str:
    """Return what a metric's values are: a share, or a figure of a range."""
    bounds = metric_range(setting, metric)
    if bounds is None:
        return ""
    return "share" if bounds == _SHARE else f"{bounds[0]:g} to {bounds[1]:g}"


def _axis(setting: str, axis: str) -> "Axis | None":
    found = _benchmark(setting)
    return None if found is None else found.results.axes.get(axis)


def axis_title(setting: str, axis: str) -> str:
    """Return the name of an axis, with its unit where it has one."""
    found = _axis(setting, axis)
    return found.title if found is not None else _AXES.get(axis, axis.replace("_", " "))


def place_names(setting: str, axis: str, level: str) -> Mapping[Any, str]:
    """Return position -> its name; empty where the positions of the axis are numbers."""
    found = _axis(setting, axis)
    return {} if found is None else found.positions(level)
