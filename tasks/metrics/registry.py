"""Registry of metrics: built-in ones, and those of the entry point group `parley.metrics`.

A metric is a pure function with a name and a version. Its module documents its arguments.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Generic, Literal, ParamSpec, TypeVar, cast

from schemas.errors import UnknownName
from schemas.outside.registry import Loaders, Registry

P = ParamSpec("P")
R = TypeVar("R")
Better = Literal["higher", "lower"]

FAMILIES: tuple[str, ...] = (
    "tasks.metrics.code_rules",
    "tasks.metrics.instruction_following",
    "tasks.metrics.intent_alignment",
    "tasks.metrics.iterative_generation",
    "tasks.metrics.repository_dialogue",
    "tasks.metrics.text_match",
    "tasks.metrics.verifiable_instructions",
)

_metrics: dict[str, "Metric[..., object]"] = {}


@dataclass(frozen=True)
class Metric(Generic[P, R]):
    """Named, versioned metric. Calling it calls its function."""

    name: str
    """Name in tables, unique among all metrics."""
    version: int
    """Part of a score's key. Raise it when the metric's values change."""
    function: Callable[P, R]
    title: str = ""
    """Short heading of the metric's column in result tables."""
    better: Better | None = "higher"
    """Direction of better values, `higher` or `lower`. None: the metric only describes."""
    judged: bool = False
    """True if the metric reads judgements, so that another judge can change its values."""
    ends: tuple[float, float] = (0.0, 1.0)
    """Lowest and highest possible value.

    Decisions between models use these bounds and refuse a value outside. A metric with other bounds
    than 0 and 1 is not a share, so its mean has no Wilson interval.
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    @property
    def heading(self) -> str:
        """Heading of the metric's column: the title, or the name if the title is empty."""
        return self.title or self.name

    @property
    def summary(self) -> str:
        """First line of the function's docstring, which `parley list metrics` prints."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]


def metric(
    name: str,
    *,
    version: int = 1,
    title: str = "",
    better: Better | None = "higher",
    judged: bool = False,
    ends: tuple[float, float] = (0.0, 1.0),
) -> Callable[[Callable[P, R]], Metric[P, R]]:
    """Return a decorator that registers a function as a metric. See `Metric` for the arguments.

    Raises:
        ValueError: a function of another module has that name.
    """

    def register(function: Callable[P, R]) -> Metric[P, R]:
        other = _metrics.get(name)
        if other is not None and other.function.__module__ != function.__module__:
            raise ValueError(
                f"metric {name!r} of {function.__module__} has the name of one of"
                f" {other.function.__module__}: rename one of them"
            )
        new_metric = Metric(name, version, function, title, better, judged, ends)
        _metrics[name] = cast("Metric[..., object]", new_metric)
        return new_metric

    return register


def share(part: int, total: int, of: str) -> float:
    """Return part / total as a ratio in [0, 1].

    Args:
        part: number of counted things, 0 to `total`.
        total: number of things, 1 and up.
        of: name of the things in the error message.

    Raises:
        ValueError: `total` is 0, or `part` is larger.
    """
    if not 0 <= part <= total or total == 0:
        raise ValueError(f"{part} of {total} {of}: the total must be 1 or more, the part 0 to it")
    return part / total


def _loaders() -> "Loaders[Metric[..., object]]":
    for family in FAMILIES:
        import_module(family)
    return {name: partial(_metrics.__getitem__, name) for name in _metrics}


METRICS = Registry["Metric[..., object]"](
    "metric", "parley.metrics", {}, _loaders, "See `parley list metrics`"
)


def heading_of(name: str) -> str:
    """Return the heading of a metric's column; the name itself for an unknown metric."""
    try:
        return METRICS.load(name).heading
    except UnknownName:
        return name
