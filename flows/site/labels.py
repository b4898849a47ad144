"""Names and units that pages show for metrics, axes and the positions on an axis."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from tasks.benchmarks.registry import BENCHMARKS
from tasks.language.providers.registry import is_control
from tasks.metrics.registry import METRICS

if TYPE_CHECKING:
    from tasks.benchmarks.contract import Benchmark
    from tasks.benchmarks.results import Axis


_AXES = {
    "turn": "turn (answers of the model)",
    "level": "level of the tasks",
    "checkpoint": "checkpoint (in order)",
}
_SHARE = (0.0, 1.0)


@cache
def _benchmark(setting: str) -> "Benchmark | None":
    """Return the benchmark of a setting, or None if it is not installed."""
    name = setting.partition(".")[0]
    return BENCHMARKS.load(name) if name in BENCHMARKS.names() else None


def metric_order(setting: str) -> tuple[str, ...]:
    """Return the metrics of a setting's benchmark, the main one first."""
    benchmark = _benchmark(setting)
    return benchmark.all_metrics if benchmark is not None else ()


def metric_of(setting: str, column: str) -> str:
    """Return the metric of a result table's column."""
    benchmark = _benchmark(setting)
    return (benchmark.results.measures if benchmark is not None else {}).get(
        column, column.rstrip("_")
    )


def metric_name(metric: str) -> str:
    """Return a metric's name in words, followed by its short heading if that differs."""
    words = metric.replace("_", " ")
    heading = METRICS.load(metric).heading if metric in METRICS.names() else words
    return words if heading.lower() in (words.lower(), metric.lower()) else f"{words} ({heading})"


def better(metric: str) -> str | None:
    """Return whether `higher` or `lower` is better.

    None: neither, or the metric is not installed.
    """
    return METRICS.load(metric).better if metric in METRICS.names() else None


def metric_range(setting: str, metric: str) -> tuple[float, float] | None:
    """Return the ends of a metric's range, or None if no installed benchmark has the metric."""
    benchmark = _benchmark(setting)
    if benchmark is None or metric not in benchmark.all_metrics:
        return None
    return benchmark.scores.ranges.get(metric, _SHARE)


def metric_unit(setting: str, metric: str) -> str:
    """Return the unit of a metric: a share, or a range of values."""
    bounds = metric_range(setting, metric)
    if bounds is None:
        return ""
    return "share" if bounds == _SHARE else f"{bounds[0]:g} to {bounds[1]:g}"


def _axis(setting: str, axis: str) -> "Axis | None":
    benchmark = _benchmark(setting)
    return None if benchmark is None else benchmark.results.axes.get(axis)


def axis_title(setting: str, axis: str) -> str:
    """Return the name of an axis, with its unit if it has one."""
    entry = _axis(setting, axis)
    return entry.title if entry is not None else _AXES.get(axis, axis.replace("_", " "))


def place_names(setting: str, axis: str, level: str) -> Mapping[Any, str]:
    """Return the names of an axis's positions. The map is empty if the positions are numbers."""
    entry = _axis(setting, axis)
    return {} if entry is None else entry.positions(level)


N_COLOURS = 12
"""Number of colours in the style sheet, `.c0` to `.c11`. From the 13th model on they repeat, with
rings as dots."""
CONTROL, MIXED = "control", "mixed"
"""CSS classes of controls, which are grey, and of a line through the values of several models."""
FURTHER = "further"
"""CSS class of the second of two models with one colour: dashed, with rings as dots."""


def model_colours(models: Iterable[str]) -> Mapping[str, str]:
    """Return a map from model to the CSS classes of its colour.

    Models take the colours in the order of their names. Controls are grey.
    """
    names = sorted(set(models))
    controls = [model for model in names if is_control(model)]
    others = [model for model in names if model not in controls]
    classes = {model: (CONTROL, at > 0) for at, model in enumerate(reversed(controls))}
    classes |= {model: (f"c{at % N_COLOURS}", at >= N_COLOURS) for at, model in enumerate(others)}
    return {
        model: f"{colour} {FURTHER}" if is_further else colour
        for model, (colour, is_further) in classes.items()
    }
