"""Names of an answer's metrics in its programs, verdicts, scores and exported rows."""

from collections.abc import Iterator

from schemas.dialog import MetricSpec, Turn
from tasks.benchmarks.unidial.rubrics import arguments_of


def numbered_metrics(turn: Turn) -> Iterator[tuple[MetricSpec, str]]:
    """Yield the metrics of an answer with their score names.

    A repeated name gets the suffix `#2`.
    """
    names: list[str] = []
    for spec in turn.metrics:
        name = full_name(spec)
        names.append(name)
        yield spec, name if names.count(name) == 1 else f"{name}#{names.count(name)}"


def full_name(spec: MetricSpec) -> str:
    """Return the metric's name, with `->NAME` if an argument names the measured property.

    Example: `instruction_following->keywords:existence`.
    """
    named = (
        value
        for key, value in arguments_of(spec).items()
        if "name" in key.lower() and isinstance(value, str)
    )
    first = next(named, None)
    return spec.name if first is None else f"{spec.name}->{first}"
