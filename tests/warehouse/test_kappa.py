"""Kappa and its interval against published and hand-worked tables."""

import math
import random

import pytest

from warehouse.agreement import (
    NO_SCALE,
    NOTHING_SHARED,
    ONE_CATEGORY,
    WORDS,
    Kappa,
    Mark,
    Marked,
    kappa,
    weighted_kappa,
)

FLEISS_COHEN_EVERITT = ((106, 10, 4), (22, 28, 10), (2, 12, 6))
"""Fleiss, Cohen and Everitt 1969, "Large sample standard errors of kappa and weighted kappa", table
1: 200 cases, 3 diagnoses.
"""


def each_an_episode(
    table: tuple[tuple[int, ...], ...], marks: tuple[Mark, ...] = (1.0, 2.0, 3.0)
) -> list[Marked]:
    cells = [
        (a, b)
        for a, row in zip(marks, table, strict=True)
        for b, n in zip(marks, row, strict=True)
        for _ in range(n)
    ]
    return [(f"e{number}", a, b) for number, (a, b) in enumerate(cells)]


def test_kappa_of_the_published_table_is_429_with_a_standard_error_of_054() -> None:
    found = kappa(each_an_episode(FLEISS_COHEN_EVERITT))
    assert found.value == pytest.approx((0.70 - 0.475) / (1 - 0.475))
    assert round(found.value or 0, 3) == 0.429
    assert ((found.high or 0) - (found.low or 0)) / 2 / 1.972 == pytest.approx(0.054, abs=0.001)


def test_words_have_the_kappa_of_numbers_and_no_weighted_one() -> None:
    words = each_an_episode(FLEISS_COHEN_EVERITT, ("schizophrenia", "affective", "other"))
    assert kappa(words).value == pytest.approx(0.225 / 0.525)
    assert weighted_kappa(words) == Kappa(undefined_because=WORDS)


def test_weighted_kappa_counts_disagreements_by_the_square_of_their_distance() -> None:
    observed = 1 * (0.05 + 0.11 + 0.05 + 0.06) + 4 * (0.02 + 0.01)
    expected = 1 * (0.60 * 0.25 + 0.30 * 0.65 + 0.30 * 0.10 + 0.10 * 0.25) + 4 * (
        0.60 * 0.10 + 0.10 * 0.65
    )
    assert weighted_kappa(each_an_episode(FLEISS_COHEN_EVERITT)).value == pytest.approx(
        1 - observed / expected
    )


def test_distances_are_those_of_the_values_and_not_of_their_ranks() -> None:
    far, near = (
        each_an_episode(FLEISS_COHEN_EVERITT, (1.0, 2.0, 5.0)),
        each_an_episode(FLEISS_COHEN_EVERITT, (0.5, 1.0, 1.5)),
    )
    observed = 1 * (0.05 + 0.11) + 9 * (0.05 + 0.06) + 16 * (0.02 + 0.01)
    expected = (
        1 * (0.60 * 0.25 + 0.30 * 0.65)
        + 9 * (0.30 * 0.10 + 0.10 * 0.25)
        + 16 * (0.60 * 0.10 + 0.10 * 0.65)
    )
    assert weighted_kappa(far).value == pytest.approx(1 - observed / expected)
    assert weighted_kappa(near) == weighted_kappa(each_an_episode(FLEISS_COHEN_EVERITT))
    assert weighted_kappa([("e1", 0.123456, 1.0), ("e2", 5.0, 5.0)]) == Kappa(
        undefined_because=NO_SCALE
    )


@pytest.mark.parametrize("seed", range(20))
def test_random_ratings_agree_with_the_formula(seed: int) -> None:
    draw = random.Random(seed)
    marked: list[Marked] = [
        (f"e{n // 3}", float(draw.randint(1, 4)), float(draw.randint(1, 4))) for n in range(30)
    ]
    for found, weight in (
        (kappa(marked), lambda a, b: a != b),
        (weighted_kappa(marked), lambda a, b: (a - b) ** 2),
    ):
        observed = math.fsum(weight(a, b) for _, a, b in marked) / 30
        expected = math.fsum(weight(a, b) for _, a, _ in marked for _, _, b in marked) / 900
        assert found.value == pytest.approx(1 - observed / expected)
        assert found.low is not None
        assert found.high is not None
        assert -1 <= found.low < found.value < found.high <= 1


def test_one_mark_throughout_is_undefined_and_neither_0_nor_1() -> None:
    same: list[Marked] = [("e1", 4.0, 4.0), ("e2", 4.0, 4.0)]
    assert kappa(same) == weighted_kappa(same) == Kappa(undefined_because=ONE_CATEGORY)
    assert kappa([]) == weighted_kappa([]) == Kappa(undefined_because=NOTHING_SHARED)
    assert kappa([("e1", 4.0, 3.0), ("e2", 4.0, 3.0)]).value == 0


def test_an_interval_that_would_tell_nothing_is_none() -> None:
    one_episode: list[Marked] = [("e1", 1.0, 1.0), ("e1", 2.0, 2.0), ("e1", 1.0, 2.0)]
    perfect: list[Marked] = [(f"e{n}", float(n % 2), float(n % 2)) for n in range(8)]
    held_by_one: list[Marked] = [("e1", 1.0, 1.0), ("e2", 1.0, 1.0), ("e3", 2.0, 1.0)]
    for marked, value in ((one_episode, 0.4), (perfect, 1.0), (held_by_one, 0.0)):
        found = kappa(marked)
        assert found.value == pytest.approx(value)
        assert (found.low, found.high) == (None, None)


def test_turns_of_one_episode_count_as_one_draw() -> None:
    alone = each_an_episode(FLEISS_COHEN_EVERITT)
    together: list[Marked] = [
        (f"{episode} of {copy}", a, b) for copy in range(4) for episode, a, b in alone
    ]
    repeated: list[Marked] = [(episode, a, b) for episode, a, b in alone for _ in range(4)]

    def width(marked: list[Marked]) -> float:
        found = kappa(marked)
        return (found.high or 0) - (found.low or 0)

    assert width(repeated) == pytest.approx(width(alone))
    assert width(together) == pytest.approx(width(alone) / 2, rel=0.02)
