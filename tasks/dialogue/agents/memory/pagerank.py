"""Personalised PageRank on an undirected graph with weights (the formula of networkx, which is not among Parley's packages)."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.sparse import coo_array

TOLERANCE, MOST_ROUNDS = 1e-9, 200


def pagerank(
    n: int, edges: Mapping[tuple[int, int], float], seeds: Sequence[float], damping: float
) -> tuple[float, ...]:
    """Where a walk is in the long run that goes on along edges, by weight, and else begins anew at a seed, by weight.

    Args:
        n: number of nodes, 1 and up.
        edges: (node, node) -> weight; each counts both ways.
        seeds: weight of each node, not all 0.
        damping: chance to go on, 0 to below 1. From a node without edges it always begins anew.

    Returns:
        A share for each node; together 1.
    """
    weights = np.asarray(seeds, dtype=float)
    start = weights / weights.sum()
    pairs = np.array([*edges, *((b, a) for a, b in edges)], dtype=int).reshape(-1, 2)
    values = np.array([*edges.values(), *edges.values()], dtype=float)
    graph = coo_array((values, (pairs[:, 1], pairs[:, 0])), shape=(n, n)).tocsr()
    leaving = np.asarray(graph.sum(axis=0)).ravel()
    share = np.divide(1.0, leaving, out=np.zeros(n), where=leaving > 0)
    rank = start
    for _ in range(MOST_ROUNDS):
        moved = (
            damping * (graph @ (rank * share) + rank[leaving == 0].sum() * start)
            + (1 - damping) * start
        )
        if np.abs(moved - rank).sum() < TOLERANCE:
            return tuple(moved.tolist())
        rank = moved
    return tuple(rank.tolist())
