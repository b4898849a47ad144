"""One difference for each problem, from the scores of its samples and turns."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from schemas.errors import ConfigError


class ScorePair(NamedTuple):
    """Scores of one sample by the new run and by the baseline. None: the run has no score."""

    problem_id: str
    place: Hashable
    """Key of one scored answer within the problem, such as (dialog, turn, instruction)."""
    value: float | None
    baseline: float | None


@dataclass(frozen=True)
class ProblemDifferences:
    """Mean differences by problem, in [-1, 1]."""

    differences: Mapping[str, float]
    """Problem -> mean of the new run minus the baseline's, divided by the metric's range. In the
    order of the rows."""
    values: Mapping[str, float]
    """Problem -> mean of the new run, in the metric's unit.

    Only places (such as a turn or an instruction) that both runs scored count.
    """
    unscored: tuple[str, ...]
    """Problems without a place that both runs scored.

    They are excluded from means and from `n_total` of a confidence sequence.
    """


def paired_differences(
    rows: Iterable[ScorePair], ends: tuple[float, float] = (0.0, 1.0)
) -> ProblemDifferences:
    """Average samples within a place (such as a turn), then places within a problem, and subtract.

    Only places that both runs scored count, so a missing turn shifts no difference. The numbers of
    samples may differ.

    Args:
        ends: lowest and highest value of the metric. Differences are divided by highest - lowest.

    Raises:
        ConfigError: a score is outside `ends`. A confidence sequence needs known bounds.
    """
    by_problem: dict[str, dict[Hashable, tuple[list[float], list[float]]]] = {}
    for row in rows:
        sides = by_problem.setdefault(row.problem_id, {}).setdefault(row.place, ([], []))
        for side, value in zip(sides, (row.value, row.baseline), strict=True):
            if value is not None:
                side.append(_within(value, ends, row))
    differences, own = dict[str, float](), dict[str, float]()
    for problem_id, places in by_problem.items():
        pairs = [
            (fmean(values), fmean(baselines))
            for values, baselines in places.values()
            if values and baselines
        ]
        if pairs:
            differences[problem_id] = fmean([value - baseline for value, baseline in pairs]) / (
                ends[1] - ends[0]
            )
            own[problem_id] = fmean([value for value, _ in pairs])
    return ProblemDifferences(
        differences, own, tuple(name for name in by_problem if name not in differences)
    )


def _within(value: float, ends: tuple[float, float], row: ScorePair) -> float:
    if not ends[0] <= value <= ends[1]:
        raise ConfigError(
            f"decide: problem {row.problem_id!r}, {row.place}: score {value:g} is outside "
            f"{ends[0]:g} to {ends[1]:g}. Declare the"
            " metric's `ends`, or decide by another metric"
        )
    return value
