"""Scores that are due at turns which an episode never played, where a benchmark says so."""

from typing import Any

import pytest

from tests.warehouse.checked_tables import PROBLEMS, Rows, corrupted, episode_id, full_context
from warehouse.checks import CheckContext, blocking_failures, check_table

CARRIED = frozenset((turn, metric) for turn in (1, 2, 3) for metric in ("accuracy", "all_held")) | {
    (0, "ever")
}
"""The first problem was solved in round 2 of 3, and has one score of the whole task."""
PLAYED = frozenset((turn, metric) for turn in (1, 2) for metric in ("accuracy", "all_held"))


def context(**changes: Any) -> CheckContext:
    due = {episode_id(PROBLEMS[0]): CARRIED, episode_id(PROBLEMS[1]): PLAYED}
    return full_context(
        due_scores=due,
        metric_ranges=dict.fromkeys(("accuracy", "all_held", "ever"), (0.0, 1.0)),
        **changes,
    )


def carry_forward(rows: Rows) -> None:
    rows += [rows[0] | {"turn": 3, "metric": metric} for metric in ("accuracy", "all_held")]
    rows.append(rows[0] | {"turn": 0, "metric": "ever"})


def failed(spoil: Any, context: CheckContext) -> list[tuple[str, str]]:
    checks = blocking_failures(check_table("scores", corrupted("scores", spoil), context))
    return [(check.expectation, check.detail) for check in checks]


@pytest.mark.slow
def test_scores_carried_forward_belong_to_an_episode_that_ended_before_them() -> None:
    assert failed(carry_forward, context()) == []
    assert [name for name, _ in failed(carry_forward, full_context())] == [
        "metric_known",
        "episode_and_turn_exist",
    ]


def test_a_carried_score_that_was_dropped_is_missed() -> None:
    def drop_the_carried(rows: Rows) -> None:
        carry_forward(rows)
        del rows[-2:]

    [(name, detail)] = failed(drop_the_carried, context())
    assert name == "due_score_present"
    assert "turn=3" in detail
    assert "2 " in detail


def test_a_score_at_a_turn_that_is_neither_played_nor_due_is_refused() -> None:
    def beyond(rows: Rows) -> None:
        carry_forward(rows)
        rows.append(rows[0] | {"turn": 4})

    [(name, detail)] = failed(beyond, context())
    assert name == "episode_and_turn_exist"
    assert "turn 4" in detail
