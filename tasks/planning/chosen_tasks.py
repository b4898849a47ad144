"""Chooses the tasks of a run, by its request."""

import math
from collections.abc import Collection, Iterable, Sequence

from schemas.content_id import content_id
from schemas.dialog import Dialog
from tasks.planning.missing_packages import MissingPackages
from tasks.planning.request import BenchmarkRequest


def chosen_problems(
    request: BenchmarkRequest,
    benchmark: str,
    dataset: Sequence[Dialog],
    asked: Collection[str],
    skipped: MissingPackages | None,
) -> frozenset[str]:
    """Choose from the problems with packages those that the options ask, of these the first `limit`, of these a share.

    Args:
        asked: ids of the problems that the options choose.
        skipped: problems to leave out, if there are any.
    """
    gone = skipped.problem_ids if skipped else frozenset[str]()
    names = tuple(
        dict.fromkeys(
            d.problem_id for d in dataset if d.problem_id in asked and d.problem_id not in gone
        )
    )
    names = names[: request.limit]
    if request.subsample is not None:
        n = max(1, math.floor(request.subsample.share * len(names) + 1e-9))
        names = problem_order(names, benchmark, request.subsample.seed)[:n]
    return frozenset(names)


def problem_order(problem_ids: Iterable[str], benchmark: str, seed: int) -> tuple[str, ...]:
    """Problems in the order in which subsamples take them: the same for every model and setting, whatever else there is."""
    return tuple(sorted(problem_ids, key=lambda name: content_id([benchmark, seed, name])))
