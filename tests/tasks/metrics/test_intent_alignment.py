"""Entity and semantic figures of Talk2Code, worked by hand for each reading of their formulas.

A dialogue of four replies. The reference has the entities a, b, c and d.

reply  names     right so far  wrong now  density
1      a, x      a             x          1/2
2      b         a, b          -          1
3      y, z      a, b          y, z       1/2
4      a,b,c,d   a, b, c, d    -          1
"""

from math import exp, log

import pytest

from tasks.metrics.intent_alignment import (
    LOWEST_PROBABILITY,
    Counting,
    entity_consistency,
    entity_satisfaction,
    match_densities,
    probability,
    semantic_consistency,
    semantic_satisfaction,
)

TRUE = frozenset("abcd")
NAMED = [frozenset(text) for text in ("ax", "b", "yz", "abcd")]
DENSITIES = (1 / 2, 1.0, 1 / 2, 1.0)
PRINTED, PRINTED_ALL = Counting(), Counting("all")
CONSISTENT, CONSISTENT_ALL = Counting(changes="consistent"), Counting("all", "consistent")


def beta_2_2(x: float) -> float:
    """The integral of 6 t (1 - t) from 0 to x."""
    return 3 * x**2 - 2 * x**3


def test_right_entities_add_up_and_wrong_ones_count_in_their_own_reply_alone() -> None:
    assert match_densities(TRUE, NAMED) == DENSITIES


def test_a_reply_without_entities_is_0_before_the_first_right_one_and_1_after_it() -> None:
    assert match_densities(TRUE, [frozenset(), frozenset("a"), frozenset()]) == (0.0, 1.0, 1.0)


def test_a_reference_without_entities_has_no_density() -> None:
    assert match_densities(frozenset(), NAMED) is None


def test_entity_consistency_is_taken_at_the_reply_before_the_last_or_at_the_last() -> None:
    assert (
        entity_consistency(DENSITIES, PRINTED)
        == pytest.approx(beta_2_2(1 / 2))
        == pytest.approx(0.5)
    )
    assert entity_consistency(DENSITIES, PRINTED_ALL) == pytest.approx(1.0)
    assert (
        entity_consistency((0.25, 1.0), PRINTED)
        == pytest.approx(beta_2_2(0.25))
        == pytest.approx(0.15625)
    )


@pytest.mark.parametrize(
    ("counting", "mean", "share"),
    [
        (PRINTED, 0 / 3, 2 / 3),  # replies 1 to 3; rises into 2 and 4, of three changes
        (CONSISTENT, 0 / 2, 1 / 2),  # rises into 2, of two changes
        (PRINTED_ALL, 0.5 / 4, 2 / 4),  # replies 1 to 4; three changes exist, divided by four
        (CONSISTENT_ALL, 0.5 / 3, 2 / 3),
    ],
)
def test_entity_satisfaction_is_mean_change_times_share_of_rises(
    counting: Counting, mean: float, share: float
) -> None:
    assert entity_satisfaction(DENSITIES, counting) == pytest.approx(mean * share)


@pytest.mark.parametrize(
    ("counting", "mean", "share"),
    [
        (PRINTED, 0.3 / 3, 3 / 3),
        (CONSISTENT, 0.3 / 2, 2 / 2),
        (PRINTED_ALL, 0.6 / 4, 3 / 4),
        (CONSISTENT_ALL, 0.6 / 3, 3 / 3),
    ],
)
def test_readings_differ_where_densities_only_rise(
    counting: Counting, mean: float, share: float
) -> None:
    assert entity_satisfaction((0.1, 0.2, 0.4, 0.7), counting) == pytest.approx(mean * share)


def test_a_falling_dialogue_with_one_rise_has_a_negative_value() -> None:
    assert entity_satisfaction((0.8, 0.9, 0.2, 0.1), PRINTED) == pytest.approx(-0.6 / 3 * 1 / 3)


def test_one_reply_has_nothing_before_the_last_and_no_change() -> None:
    one = (0.5,)
    assert [
        f(one, PRINTED)
        for f in (
            entity_consistency,
            entity_satisfaction,
            semantic_consistency,
            semantic_satisfaction,
        )
    ] == [None] * 4
    assert semantic_consistency(one, PRINTED_ALL) == pytest.approx(0.5)
    assert entity_satisfaction(one, PRINTED_ALL) == 0.0
    assert entity_satisfaction(one, CONSISTENT_ALL) is None
    assert entity_consistency((), PRINTED_ALL) is None


def test_one_question_and_a_delivery_have_a_change_as_printed_only_of_0() -> None:
    assert entity_satisfaction((0.25, 1.0), PRINTED) == 0.0
    assert entity_satisfaction((0.25, 1.0), CONSISTENT) is None
    assert entity_satisfaction((0.25, 1.0), CONSISTENT_ALL) == pytest.approx(0.75)


def test_semantic_consistency_is_a_geometric_mean() -> None:
    assert semantic_consistency((0.4, 0.9, 0.3), PRINTED) == pytest.approx((0.4 * 0.9) ** (1 / 2))
    assert semantic_consistency((0.4, 0.9, 0.3), PRINTED_ALL) == pytest.approx(
        (0.4 * 0.9 * 0.3) ** (1 / 3)
    )


def test_semantic_satisfaction_is_taken_of_logarithms_or_of_probabilities() -> None:
    values = (0.5, 0.6, 0.6, 0.9)
    assert semantic_satisfaction(values, PRINTED) == pytest.approx(0.1 / 3 * 2 / 3)
    assert semantic_satisfaction([log(v) for v in values], PRINTED) == pytest.approx(
        log(0.6 / 0.5) / 3 * 2 / 3
    )


def test_a_cosine_becomes_a_probability_away_from_0() -> None:
    assert probability(0.3, "half_cosine") == pytest.approx(0.65)
    assert probability(0.3, "clipped_cosine") == pytest.approx(0.3)
    assert (
        probability(-0.2, "clipped_cosine")
        == probability(-1.0, "half_cosine")
        == LOWEST_PROBABILITY
    )
    assert probability(1.0000001, "clipped_cosine") == 1.0
    assert semantic_consistency(
        (probability(-1.0, "half_cosine"), 1.0, 1.0), PRINTED
    ) == pytest.approx(exp(log(LOWEST_PROBABILITY) / 2))
