"""Choice of a run's tasks by its request."""

import math
from collections.abc import Collection, Iterable, Sequence

from schemas.content_id import content_id
from tasks.planning.missing_packages import MissingPackages
from tasks.planning.request import BenchmarkRequest


def choose_problems(
    request: BenchmarkRequest,
    benchmark: str,
    problem_ids: Sequence[str],
    selection: Collection[str] | None,
    skipped: MissingPackages | None,
) -> frozenset[str]:
    """Choose a run's problems: those of the options, of these the first `limit`, of these a share.

    Args:
        request: has the limit and the subsample.
        benchmark: name of the benchmark. The order of subsamples depends on it.
        problem_ids: all problems of the dataset, in its order.
        selection: problems that the options choose; None for all.
        skipped: problems to leave out because packages are missing; None for none.
    """
    excluded = skipped.problem_ids if skipped else frozenset[str]()
    names = tuple(
        name
        for name in problem_ids
        if (selection is None or name in selection) and name not in excluded
    )[: request.limit]
    if request.subsample is not None:
        n = max(1, math.floor(request.subsample.share * len(names) + 1e-9))
        names = problem_order(names, benchmark, request.subsample.seed)[:n]
    return frozenset(names)


def problem_order(problem_ids: Iterable[str], benchmark: str, seed: int) -> tuple[str, ...]:
    """Return problems in the order in which subsamples take them.

    The order depends on benchmark and seed only, so it is equal for all models and settings.
    """
    return tuple(sorted(problem_ids, key=lambda name: content_id([benchmark, seed, name])))
