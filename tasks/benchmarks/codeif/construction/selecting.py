"""Chooses review comments that differ: k-centre greedy selection over their vectors (section 3.3.1)."""

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.language.embedding import Vector


def k_centres(vectors: "Sequence[Vector]", k: int) -> tuple[int, ...]:
    """Places of `k` vectors, each the farthest from those chosen before it; the first is the first. All where there are fewer.

    Args:
        vectors: of length 1, so that distance falls as their product grows. Of equally far ones the first is taken.

    Source: Sener and Savarese 2018, algorithm 1.
    """
    if not vectors or k < 1:
        return ()
    chosen, farthest = [0], 0
    nearest = [-inf] * len(vectors)
    while len(chosen) < min(k, len(vectors)):
        for n, vector in enumerate(vectors):
            nearest[n] = max(nearest[n], float(vector @ vectors[farthest]))
        nearest[farthest] = inf  # chosen: near to itself above all
        farthest = min(range(len(vectors)), key=nearest.__getitem__)
        chosen.append(farthest)
    return tuple(chosen)
