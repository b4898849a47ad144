"""Pass@1 by turn, MRR and Recall on tables worked by hand, and what must hold for every table."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.metrics.iterative_generation import mrr, pass_at_1, pass_at_1_upstream, recall

Turns = tuple[bool, ...]


def turns(marks: str) -> Turns:
    """One letter a turn, from turn 0."""
    return tuple(mark == "+" for mark in marks)


@pytest.mark.parametrize(
    ("marks", "by_turn", "upstream", "rank", "ever"),
    [
        ("+++", [1, 1, 1], [1, 1, 1], 1.0, 1),
        ("-++", [0, 1, 1], [0, 1, 1], 1 / 2, 1),
        ("--+", [0, 0, 1], [0, 0, 1], 1 / 3, 1),
        ("---", [0, 0, 0], [0, 0, 0], 0.0, 0),
        # A static replay asks again, whatever the target's own code did before.
        ("+-+", [1, 0, 1], [1, 1, 1], 1.0, 1),
        ("-+-", [0, 1, 0], [0, 1, 0], 1 / 2, 1),
        ("-" * 10 + "+", [0] * 10 + [1], [0] * 10 + [1], 1 / 11, 1),
    ],
)
def test_a_table_worked_by_hand(
    marks: str, by_turn: list[int], upstream: list[int], rank: float, ever: int
) -> None:
    passed = turns(marks)
    assert [pass_at_1(passed, turn) for turn in range(len(passed))] == by_turn
    assert [pass_at_1_upstream(passed, turn) for turn in range(len(passed))] == upstream
    assert mrr(passed) == pytest.approx(rank)
    assert recall(passed) == ever


@pytest.mark.parametrize("turn", [-1, 3])
def test_a_turn_outside_the_task_is_refused(turn: int) -> None:
    for metric in (pass_at_1, pass_at_1_upstream):
        with pytest.raises(ValueError, match=rf"turn {turn} is outside 0\.\.2"):
            metric(turns("--+"), turn)


def test_a_task_without_turns_has_no_rank() -> None:
    for metric in (mrr, recall):
        with pytest.raises(ValueError, match="outside"):
            metric(())


TABLES = st.lists(st.booleans(), min_size=1, max_size=11)


@given(TABLES)
def test_recall_is_where_there_is_a_rank_and_upstream_is_the_higher_reading(
    passed: Sequence[bool],
) -> None:
    assert (
        recall(passed)
        == (mrr(passed) > 0)
        == max(pass_at_1(passed, turn) for turn in range(len(passed)))
    )
    assert mrr(passed) <= recall(passed)
    for turn in range(len(passed)):
        assert pass_at_1(passed, turn) <= pass_at_1_upstream(passed, turn)
    assert pass_at_1(passed, 0) == pass_at_1_upstream(passed, 0)


@given(TABLES, st.integers(0, 10))
def test_passing_one_turn_more_lowers_nothing(passed: list[bool], turn: int) -> None:
    """What scoring relies on where some turns could not be measured."""
    more = [mark or at == turn for at, mark in enumerate(passed)]
    assert mrr(more) >= mrr(passed)
    assert recall(more) >= recall(passed)
    assert all(
        pass_at_1_upstream(more, t) >= pass_at_1_upstream(passed, t) for t in range(len(passed))
    )


@given(TABLES)
def test_once_carried_forward_the_two_readings_of_pass_at_1_are_one(passed: list[bool]) -> None:
    carried = [any(passed[: turn + 1]) for turn in range(len(passed))]
    assert all(pass_at_1(carried, t) == pass_at_1_upstream(carried, t) for t in range(len(carried)))
    assert (mrr(carried), recall(carried)) == (mrr(passed), recall(passed))
