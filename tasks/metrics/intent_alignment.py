"""Convergence of a model's replies on the user's intent (Talk2Code, Evaluation Metrics Design).

These are the metrics of the paper's objective evaluation. A dialogue has two series with one value
for each reply: the entity match density rho_k and the semantic probability P_k. Four metrics
summarise the series. The paper's formulas allow several interpretations. `Counting` names them, and
the benchmark's README explains them.
"""

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from tasks.metrics.registry import metric

BETA = 2.0
"""Both parameters of the Beta distribution (equation 4)."""
LOWEST_PROBABILITY = 1e-3
"""Lower bound of the semantic probability P_k, so that its logarithm is bounded."""

Probability = Literal["half_cosine", "clipped_cosine"]


@dataclass(frozen=True)
class Counting:
    """Interpretation of the indices in the paper's formulas, for a dialogue of m replies."""

    replies: Literal["before_last", "all"] = "before_last"
    """Value of n.

    `before_last`: m, so that index n - 1 is the reply before the last one. `all`: m + 1, so that
    index n - 1 is the last reply.
    """
    changes: Literal["as_printed", "consistent"] = "as_printed"
    """Denominators of equation 6.

    `as_printed`: n - 1 for the mean change and for the share of rises, and the change into reply n
    counts among the rises. `consistent`: n - 2, the number of changes between the first n - 1
    replies, for both.
    """

    def last(self, n_replies: int) -> int:
        """Return the index n - 1; 0 if the dialogue has no such reply."""
        return max(0, n_replies - 1 if self.replies == "before_last" else n_replies)


def match_densities(
    true_entities: AbstractSet[str], reply_entities: Sequence[AbstractSet[str]]
) -> tuple[float, ...] | None:
    """Return the entity match density of each reply.

    With R the correct entities named up to and including the reply, and W the wrong entities of
    this reply, the density is |R| / (|R| + |W|).

    Args:
        true_entities: entities of the reference.
        reply_entities: entities of each reply, in order.

    Returns:
        Values in [0, 1], one for each reply; 0 if R and W are empty. None if the reference has no
        entity.

    Source: Talk2Code eq. 3, rho_k.
    """
    if not true_entities:
        return None
    right: set[str] = set()
    densities: list[float] = []
    for entities in reply_entities:
        right |= entities & true_entities
        total = len(right) + len(entities - true_entities)
        densities.append(len(right) / total if total else 0.0)
    return tuple(densities)


def probability(cosine: float, reading: Probability) -> float:
    """Return the probability that a reply means the same as the reference.

    Args:
        cosine: cosine of the vectors of reply and reference, -1 to 1.
        reading: `half_cosine`: (1 + cosine) / 2, which is one minus half of the cosine distance.
            `clipped_cosine`: the cosine itself.

    Returns:
        Value in [0.001, 1].

    Source: Talk2Code, P_k. The paper embeds by BGE-M3 "with cosine distance computing embedding
    similarity" and gives no formula.
    """
    value = (1 + cosine) / 2 if reading == "half_cosine" else cosine
    return min(1.0, max(LOWEST_PROBABILITY, value))


@metric("entity_match_density", title="rho", judged=True)
def entity_match_density(density: float) -> float:
    """Return the entity match density after one reply (see `match_densities`).

    Args:
        density: rho_k, in [0, 1].

    Returns:
        `density`, unchanged. The paper plots this value over the turns.

    Source: Talk2Code eq. 3 and Figure 4.
    """
    return density


@metric("semantic_probability", title="P")
def semantic_probability(value: float) -> float:
    """Return the probability that one reply means the same as the reference (see `probability`).

    Args:
        value: P_k, in [0.001, 1].

    Returns:
        `value`, unchanged. The paper plots it over the turns.

    Source: Talk2Code, P_k, and Figure 4.
    """
    return value


@metric("entity_consistency", title="EC", judged=True)
def entity_consistency(densities: Sequence[float], counting: Counting) -> float | None:
    """Return the cumulative distribution function of Beta(2, 2) at the density of reply n - 1.

    Args:
        densities: rho_k of each reply, in [0, 1].
        counting: reading of the index n.

    Returns:
        Value in [0, 1]; None if there is no reply n - 1.

    Source: Talk2Code eq. 4.
    """
    from scipy.stats import beta

    last = counting.last(len(densities))
    return float(beta.cdf(densities[last - 1], BETA, BETA)) if last else None


@metric("entity_satisfaction", title="ES", judged=True, ends=(-1.0, 1.0))
def entity_satisfaction(densities: Sequence[float], counting: Counting) -> float | None:
    """Return the mean change of the density between replies, times the share of rises.

    Args:
        densities: rho_k of each reply, in [0, 1].
        counting: reading of the index n and of the denominators.

    Returns:
        Value in [-1, 1]; None if the dialogue is too short for a change.

    Source: Talk2Code eq. 6.
    """
    return _satisfaction(densities, counting)


@metric("semantic_consistency", title="SC")
def semantic_consistency(probabilities: Sequence[float], counting: Counting) -> float | None:
    """Return the geometric mean of the semantic probabilities of the first n - 1 replies.

    Args:
        probabilities: P_k of each reply, above 0 and up to 1.
        counting: reading of the index n.

    Returns:
        Value in (0, 1]; None if there is no reply n - 1.

    Source: Talk2Code eq. 5; its summand has the index k, which must be i.
    """
    last = counting.last(len(probabilities))
    return math.exp(sum(math.log(value) for value in probabilities[:last]) / last) if last else None


@metric("semantic_satisfaction", title="SS", ends=(-7.0, 7.0))
def semantic_satisfaction(series: Sequence[float], counting: Counting) -> float | None:
    """Return the mean change of the semantic series between replies, times the share of rises.

    Args:
        series: for each reply, the logarithm of P_k or P_k itself.
        counting: reading of the index n and of the denominators.

    Returns:
        Value in [-7, 7] for logarithms, in [-1, 1] for probabilities; None if the dialogue is too
        short for a change.

    Source: Talk2Code, after eq. 6: "the same formulation" on the semantic similarity scores.
    """
    return _satisfaction(series, counting)


def _satisfaction(series: Sequence[float], counting: Counting) -> float | None:
    last = counting.last(len(series))
    as_printed = counting.changes == "as_printed"
    denominator = last if as_printed else last - 1
    if denominator < 1:
        return None
    n_changes = min(last, len(series) - 1) if as_printed else denominator
    rises = sum(series[i + 1] > series[i] for i in range(n_changes))
    return (series[last - 1] - series[0]) / denominator * (rises / denominator)
