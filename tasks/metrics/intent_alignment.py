"""How a model closes in on what a user means (Talk2Code, Evaluation Metrics Design: objective evaluation).

Two series of a dialogue, one value a reply: the entity match density rho_k and the semantic probability P_k. Four figures are
made of them. Where the paper's formulas leave a choice, `Counting` names it; the benchmark's README says what each choice means.
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
"""P_k is clipped to this, so that its logarithm is bounded."""

Probability = Literal["half_cosine", "clipped_cosine"]


@dataclass(frozen=True)
class Counting:
    """Readings of the formulas' indices, for a dialogue of m replies."""

    replies: Literal["before_last", "all"] = "before_last"
    """What n is: m, so that index n - 1 is the reply before the last one; or m + 1, so that it is the last."""
    changes: Literal["as_printed", "consistent"] = "as_printed"
    """Mean change and share of rises both over n - 1, as equation 6 prints them, with the change into reply n among the rises;
    or both over the n - 2 changes between the first n - 1 replies."""

    def last(self, n_replies: int) -> int:
        """The index n - 1; 0 where the dialogue has no such reply."""
        return max(0, n_replies - 1 if self.replies == "before_last" else n_replies)


def match_densities(
    true: AbstractSet[str], named: Sequence[AbstractSet[str]]
) -> tuple[float, ...] | None:
    """Entity match density of each reply: right entities named so far, over these and the wrong ones of this reply.

    Args:
        true: entities of the reference.
        named: entities of each reply, in order.

    Returns:
        Values in [0, 1], one a reply; 0 where nothing right was named so far and nothing at all now. None where the reference
        has no entity, so that none can match.

    Source: Talk2Code eq. 3, rho_k.
    """
    if not true:
        return None
    right: set[str] = set()
    densities: list[float] = []
    for entities in named:
        right |= entities & true
        seen = len(right) + len(entities - true)
        densities.append(len(right) / seen if seen else 0.0)
    return tuple(densities)


def probability(cosine: float, reading: Probability) -> float:
    """Probability that a reply means what the reference means, from the cosine of their vectors.

    Args:
        cosine: -1 to 1.
        reading: `half_cosine`, (1 + cosine) / 2: one minus half of the cosine distance; `clipped_cosine`, the cosine itself.

    Returns:
        Value in [0.001, 1].

    Source: Talk2Code, P_k. The paper embeds by BGE-M3 "with cosine distance computing embedding similarity" and says no more.
    """
    value = (1 + cosine) / 2 if reading == "half_cosine" else cosine
    return min(1.0, max(LOWEST_PROBABILITY, value))


@metric("entity_match_density", title="rho", judged=True)
def entity_match_density(density: float) -> float:
    """Entity match density after one reply, as `match_densities` counts it.

    Args:
        density: rho_k, in [0, 1].

    Returns:
        The density itself: one value a reply, which the paper plots over the turns.

    Source: Talk2Code eq. 3 and Figure 4.
    """
    return density


@metric("semantic_probability", title="P")
def semantic_probability(value: float) -> float:
    """Probability that one reply means what the reference means, as `probability` reads it from a cosine.

    Args:
        value: P_k, in [0.001, 1].

    Returns:
        The probability itself: one value a reply, which the paper plots over the turns.

    Source: Talk2Code, P_k, and Figure 4.
    """
    return value


@metric("entity_consistency", title="EC", judged=True)
def entity_consistency(densities: Sequence[float], counting: Counting) -> float | None:
    """Cumulative entity consistency: Beta(2, 2)'s distribution function at the density of reply n - 1.

    Args:
        densities: rho_k of each reply, in [0, 1].

    Returns:
        Value in [0, 1]; None where there is no reply n - 1.

    Source: Talk2Code eq. 4.
    """
    from scipy.stats import beta

    last = counting.last(len(densities))
    return float(beta.cdf(densities[last - 1], BETA, BETA)) if last else None


@metric("entity_satisfaction", title="ES", judged=True)
def entity_satisfaction(densities: Sequence[float], counting: Counting) -> float | None:
    """Mean change of the density from reply to reply, times the share of rises.

    Args:
        densities: rho_k of each reply, in [0, 1].

    Returns:
        Value in [-1, 1]; None where the dialogue is too short for a change.

    Source: Talk2Code eq. 6.
    """
    return _satisfaction(densities, counting)


@metric("semantic_consistency", title="SC")
def semantic_consistency(probabilities: Sequence[float], counting: Counting) -> float | None:
    """Geometric mean of the semantic probabilities of the first n - 1 replies.

    Args:
        probabilities: P_k of each reply, above 0 and up to 1.

    Returns:
        Value in (0, 1]; None where there is no reply n - 1.

    Source: Talk2Code eq. 5; its summand has the index k where i is meant.
    """
    last = counting.last(len(probabilities))
    return math.exp(sum(math.log(value) for value in probabilities[:last]) / last) if last else None


@metric("semantic_satisfaction", title="SS")
def semantic_satisfaction(series: Sequence[float], counting: Counting) -> float | None:
    """Mean change of the semantic series from reply to reply, times the share of rises.

    Args:
        series: the logarithm of P_k, or P_k itself, of each reply.

    Returns:
        Value in [-7, 7] of logarithms, in [-1, 1] of probabilities; None where the dialogue is too short for a change.

    Source: Talk2Code, after eq. 6: "the same formulation" on the semantic similarity scores.
    """
    return _satisfaction(series, counting)


def _satisfaction(series: Sequence[float], counting: Counting) -> float | None:
    last = counting.last(len(series))
    as_printed = counting.changes == "as_printed"
    over = last if as_printed else last - 1
    if over < 1:
        return None
    n_changes = min(last, len(series) - 1) if as_printed else over
    rises = sum(series[i + 1] > series[i] for i in range(n_changes))
    return (series[last - 1] - series[0]) / over * (rises / over)
