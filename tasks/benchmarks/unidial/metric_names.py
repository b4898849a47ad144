"""Names of an answer's metrics: its programs, verdicts, scores and exported rows all have theirs from here."""

from collections.abc import Iterator

from schemas.dialog import MetricSpec, Turn
from tasks.benchmarks.unidial.rubrics import arguments_of


def numbered_metrics(turn: Turn) -> Iterator[tuple[MetricSpec, str]]:
    """The metrics of an answer, each with the name that its score has: `#2` follows that of a second one of that name."""
    named: list[str] = []
    for spec in turn.metrics:
        name = full_name(spec)
        named.append(name)
        yield spec, name if named.count(name) == 1 else f"{name}#{named.count(name)}"


def full_name(spec: MetricSpec) -> str:
    """`METRIC->NAME` where an argument names what is measured, as in `instruction_following->keywords:existence`."""
    named = (
        value
        for key, value in arguments_of(spec).items()
        if "name" in key.lower() and isinstance(value, str)
    )
    first = next(named, None)
    return spec.name if first is None else f"{spec.name}->{first}"
