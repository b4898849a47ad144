"""Personalised PageRank on a weighted undirected graph, by the formula of networkx.

networkx itself is not a dependency of Parley.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.sparse import coo_array

TOLERANCE, MOST_ROUNDS = 1e-9, 200


def pagerank(
    n: int, edges: Mapping[tuple[int, int], float], seeds: Sequence[float], damping: float
) -> tuple[float, ...]:
    """Return the stationary distribution of a random walk that restarts at the seeds.

    Args:
        n: Number of nodes, 1 or more.
        edges: (node, node) -> weight. Each edge counts in both directions.
        seeds: Restart weight of each node. Not all may be 0.
        damping: Probability of continuing along an edge, at least 0 and below 1. From a node
            without edges the walk always restarts.

    Returns:
        Share of each node. The sum is 1.
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
