"""Metrics by name: ours, and others' through the entry point group `parley.metrics`.

A metric is a pure function. Its family's module says which arguments it takes; this module gives it a name and a version.
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
    "tasks.metrics.leakage",
    "tasks.metrics.repository_dialogue",
    "tasks.metrics.text_match",
    "tasks.metrics.unit_tested_code",
    "tasks.metrics.user_dialogue",
    "tasks.metrics.verifiable_instructions",
)

_registered: dict[str, "Metric[..., object]"] = {}


@dataclass(frozen=True)
class Metric(Generic[P, R]):
    """A named, versioned metric; call it like the function it was made from."""

    name: str
    version: int
    """Part of the key of a score: raise it when the metric's values change."""
    function: Callable[P, R]
    title: str = ""
    """What result tables write above its column: short words."""
    better: Better | None = "higher"
    """Which of two values is better. None: neither, it only describes."""
    judged: bool = False
    """Whether it reads judgements: it may change because a judge did."""
    ends: tuple[float, float] = (0.0, 1.0)
    """Lowest and highest value that it is taken to have where a decision needs bounds; a value outside is refused there."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    @property
    def heading(self) -> str:
        """The title; where it has none, the name."""
        return self.title or self.name

    @property
    def summary(self) -> str:
        """First line of its docstring, which `parley list metrics` prints."""
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
    """Register the function below as a metric.

    Raises:
        ValueError: another function has that name already.
    """

    def register(function: Callable[P, R]) -> Metric[P, R]:
        other = _registered.get(name)
        if other is not None and other.function.__module__ != function.__module__:
            raise ValueError(
                f"metric {name!r} of {function.__module__} has the name of one of {other.function.__module__}: rename one of them"
            )
        made = Metric(name, version, function, title, better, judged, ends)
        _registered[name] = cast("Metric[..., object]", made)
        return made

    return register


def _loaders() -> "Loaders[Metric[..., object]]":
    for family in FAMILIES:
        import_module(family)
    return {name: partial(_registered.__getitem__, name) for name in _registered}


METRICS = Registry["Metric[..., object]"](
    "metric", "parley.metrics", {}, _loaders, "See `parley list metrics`"
)


def heading_of(name: str) -> str:
    """Return the words above a metric's column: its name where nothing here offers the metric."""
    try:
        return METRICS.load(name).heading
    except UnknownName:
        return name
