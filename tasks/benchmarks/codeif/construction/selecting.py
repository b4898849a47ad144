"""Selection of diverse review comments: k-centre greedy over their vectors (section 3.3.1)."""

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.language.embedding import Vector


def k_centres(vectors: "Sequence[Vector]", k: int) -> tuple[int, ...]:
    """Return the indices of `k` vectors, each the farthest from those selected before.

    The first vector is always selected. Of equally far vectors the first is selected. With at most
    `k` vectors, all are selected.

    Args:
        vectors: vectors of length 1, so that distance falls as the dot product grows.
        k: number of vectors to select.

    Source: Sener and Savarese 2018, algorithm 1.
    """
    if not vectors or k < 1:
        return ()
    chosen, farthest = [0], 0
    nearest = [-inf] * len(vectors)
    while len(chosen) < min(k, len(vectors)):
        for n, vector in enumerate(vectors):
            nearest[n] = max(nearest[n], float(vector @ vectors[farthest]))
        nearest[farthest] = inf  # never select it again
        farthest = min(range(len(vectors)), key=nearest.__getitem__)
        chosen.append(farthest)
    return tuple(chosen)
