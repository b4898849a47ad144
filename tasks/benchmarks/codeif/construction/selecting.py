"""Chooses review comments that differ: k-centre greedy selection over their vectors (section 3.3.1)."""

from collections.abc import Sequence
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
    chosen = [0]
    nearest = [float(vector @ vectors[0]) for vector in vectors]
    while len(chosen) < min(k, len(vectors)):
        rest = [n for n in range(len(vectors)) if n not in set(chosen)]
        farthest = min(rest, key=lambda n: (nearest[n], n))
        chosen.append(farthest)
        nearest = [max(before, float(vector @ vectors[farthest])) for before, vector in zip(nearest, vectors, strict=True)]
    return tuple(chosen)
