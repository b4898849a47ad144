"""Chooses the tasks of a run, by its request."""

import math
from collections.abc import Collection, Iterable, Sequence

from schemas.content_id import content_id
from tasks.planning.missing_packages import MissingPackages
from tasks.planning.request import BenchmarkRequest


def chosen_problems(
    request: BenchmarkRequest,
    benchmark: str,
    problem_ids: Sequence[str],
    asked: Collection[str] | None,
    skipped: MissingPackages | None,
) -> frozenset[str]:
    """Choose from the problems with packages those that the options ask, of these the first `limit`, of these a share.

    Args:
        problem_ids: of the dataset, in its order.
        asked: ids of the problems that the options choose; None for all.
        skipped: problems to leave out, if there are any.
    """
    gone = skipped.problem_ids if skipped else frozenset[str]()
    names = tuple(
        name for name in problem_ids if (asked is None or name in asked) and name not in gone
    )[: request.limit]
    if request.subsample is not None:
        n = max(1, math.floor(request.subsample.share * len(names) + 1e-9))
        names = problem_order(names, benchmark, request.subsample.seed)[:n]
    return frozenset(names)


def problem_order(problem_ids: Iterable[str], benchmark: str, seed: int) -> tuple[str, ...]:
    """Problems in the order in which subsamples take them: the same for every model and setting, whatever else there is."""
    return tuple(sorted(problem_ids, key=lambda name: content_id([benchmark, seed, name])))
