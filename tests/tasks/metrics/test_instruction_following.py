"""Equations 1 to 4 of CodeIF-Bench on tables worked by hand, and what must hold for every table."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.metrics.instruction_following import (
    TurnVerdicts,
    conversation_accuracy_fraction,
    conversation_accuracy_strict,
    instruction_accuracy,
    instruction_following_efficiency,
    instruction_forgetting_ratio,
)

Verdicts = tuple[TurnVerdicts, ...]
ALL = (
    instruction_accuracy,
    conversation_accuracy_strict,
    conversation_accuracy_fraction,
    instruction_forgetting_ratio,
    instruction_following_efficiency,
)


def table(*rows: str) -> Verdicts:
    """One row a turn, one letter an instruction: `+-` is turn 2 passing T_1 and failing T_2."""
    return tuple(
        TurnVerdicts(f"I{n}", {f"I{k}": letter == "+" for k, letter in enumerate(row, 1)})
        for n, row in enumerate(rows, 1)
    )


FORGETFUL = table("+", "++", "-+-", "+--+")


@pytest.mark.parametrize(("turn", "expected"), [(1, 1), (2, 1), (3, 0), (4, 1)])
def test_ia_looks_at_the_turn_s_own_instruction_alone(turn: int, expected: float) -> None:
    assert instruction_accuracy(FORGETFUL, turn) == expected


@pytest.mark.parametrize(
    ("turn", "strict", "fraction"), [(1, 1, 1), (2, 1, 1), (3, 0, 1 / 3), (4, 0, 1 / 2)]
)
def test_the_two_readings_of_ca_differ_where_some_but_not_all_hold(
    turn: int, strict: float, fraction: float
) -> None:
    assert conversation_accuracy_strict(FORGETFUL, turn) == strict
    assert conversation_accuracy_fraction(FORGETFUL, turn) == pytest.approx(fraction)


def test_half_is_forgotten_when_one_of_two_passed_instructions_fails() -> None:
    assert instruction_forgetting_ratio(FORGETFUL, 3) == 0.5


def test_an_instruction_passed_again_is_no_longer_forgotten() -> None:
    assert (
        instruction_forgetting_ratio(FORGETFUL, 4) == 0.5
    )  # I1 is back, I2 is lost, I3 was never passed
    assert instruction_forgetting_ratio(table("+", "-+", "++-"), 3) == 0.0


def test_an_instruction_counts_as_passed_even_if_only_a_later_answer_passed_it() -> None:
    assert instruction_forgetting_ratio(table("-", "+-", "--+"), 3) == 1.0


@pytest.mark.parametrize("rows", [("+",), ("-", "-+"), ("-", "--", "+++")])
def test_ifr_is_none_where_nothing_had_been_passed(rows: tuple[str, ...]) -> None:
    assert instruction_forgetting_ratio(table(*rows), len(rows)) is None


def test_an_instruction_whose_tests_were_not_run_on_this_answer_is_not_forgotten() -> None:
    extension = TurnVerdicts("FE", {"FE": True})
    verdicts = (*table("+"), extension, TurnVerdicts("I3", {"I1": True, "I3": False}))
    assert instruction_forgetting_ratio(verdicts, 3) == 0.0
    assert conversation_accuracy_fraction(verdicts, 3) == 0.5


def test_ife_is_two_thirds_when_two_instructions_take_three_rounds() -> None:
    asked_again = TurnVerdicts("I2", {"I1": True, "I2": True})
    assert instruction_following_efficiency((*table("+", "+-"), asked_again), 3) == pytest.approx(
        2 / 3
    )


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize("turn", [0, 5, -1])
def test_a_turn_outside_the_dialogue_is_refused(
    metric: Callable[[Sequence[TurnVerdicts], int], float | None], turn: int
) -> None:
    with pytest.raises(ValueError, match=r"outside 1\.\.4"):
        metric(FORGETFUL, turn)


@pytest.mark.parametrize("metric", ALL)
def test_a_turn_without_verdicts_is_refused_and_not_scored(
    metric: Callable[[Sequence[TurnVerdicts], int], float | None],
) -> None:
    with pytest.raises(ValueError, match="no verdict"):
        metric((TurnVerdicts("I1", {}),), 1)


@st.composite
def dialogues(draw: st.DrawFn) -> Verdicts:
    n_turns = draw(st.integers(1, 8))
    return table(*(draw(st.text("+-", min_size=n, max_size=n)) for n in range(1, n_turns + 1)))


@given(dialogues())
def test_every_value_is_a_share_and_strict_is_the_lower_reading(verdicts: Verdicts) -> None:
    for n in range(1, len(verdicts) + 1):
        own, strict, fraction = (metric(verdicts, n) for metric in ALL[:3])
        forgotten = instruction_forgetting_ratio(verdicts, n)
        assert strict in (0.0, 1.0)
        assert strict <= own <= 1
        assert (strict == 1) == (fraction == 1)
        assert 0 <= strict <= fraction <= 1
        assert forgotten is None or 0 <= forgotten <= 1 - strict


@given(dialogues())
def test_later_turns_change_nothing(verdicts: Verdicts) -> None:
    n = len(verdicts) // 2 + 1
    for metric in ALL:
        assert metric(verdicts, n) == metric(verdicts[:n], n)


@given(dialogues())
def test_nothing_is_forgotten_exactly_where_all_that_was_ever_passed_still_holds(
    verdicts: Verdicts,
) -> None:
    n = len(verdicts)
    ever = {i for turn in verdicts[:-1] for i, passed in turn.passed.items() if passed}
    kept = {i for i in ever if verdicts[-1].passed[i]}
    assert instruction_forgetting_ratio(verdicts, n) == (
        pytest.approx(1 - len(kept) / len(ever)) if ever else None
    )
