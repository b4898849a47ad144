"""Events of a night: what a slow decline, a cliff, a way back and a moved judge bring, and how many
are false.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from warehouse.comparison.events import with_night_events, with_pair_events
from warehouse.comparison.history import change, is_steady, trend
from warehouse.comparison.paired import ALPHA, adjusted, mcnemar

Row = dict[str, Any]
DECLINE = [0.90 - 0.02 * step + 0.004 * (-1) ** step for step in range(13)]
"""Loses 24 points over 12 steps, each of them too small to be told from noise."""
CLIFF = [0.90, 0.91, 0.89, 0.90, 0.91, 0.89, 0.60, 0.61, 0.59, 0.60, 0.61, 0.59]


def pair(night: int, difference: float, p_value: float | None, **more: Any) -> Row:
    """A row of `comparisons` that the night's checkpoint has with its predecessor."""
    row = {
        "run_id": f"run-{night}",
        "night_id": f"night-{night:02}",
        "metric": "accuracy",
        "against": "predecessor",
    }
    numbers = {
        "difference": difference,
        "mean": 0.9 + difference,
        "other_mean": 0.9,
        "p_value": p_value,
        "q_value": p_value,
    }
    return (
        row
        | numbers
        | {"better": "higher", "threshold": 0.01, "judge_n": None, "judge_n_changed": None}
        | {"decision": None}
        | more
    )


def line(means: Sequence[float], **more: Any) -> list[Row]:
    """The rows of `history` of one metric, as they are before their events are added."""
    slope, steps = trend(means), change(means)
    at = steps.at
    found = at is not None and steps.p_value is not None and steps.p_value < ALPHA
    is_line = at is not None and (slope.p_value or 1) < ALPHA and is_steady(means, at)
    shared = {
        "family": "coder",
        "series": "s",
        "metric": "accuracy",
        "metric_version": 1,
        "better": "higher",
        "threshold": 0.01,
    }
    tests = {"trend_slope": slope.slope, "trend_p": slope.p_value, "change_p": steps.p_value}
    judges = {"judge_n": None, "judge_n_changed": None}
    return [
        shared
        | tests
        | judges
        | {
            "position": place,
            "run_id": f"run-{place}",
            "night_id": f"night-{place:02}",
            "mean": mean,
        }
        | {"ci_low": mean - 0.03, "ci_high": mean + 0.03}
        | {"is_change_point": found and not is_line and place == (at or 0) + 1}
        | more
        for place, mean in enumerate(means, start=1)
    ]


def events(
    history: Sequence[Row], compared: Sequence[Row] = (), judged: Sequence[str] = ()
) -> list[tuple[int, str]]:
    _, marked = with_night_events(compared, history, judged)
    return [(row["position"], row["event"]) for row in marked if row["event"]]


def test_a_slow_decline_is_a_trend_and_no_change_point() -> None:
    history = line(DECLINE)
    assert change(DECLINE).p_value is not None
    assert change(DECLINE).p_value < ALPHA  # type: ignore[operator]  (asserted above)
    assert events(history) == [(13, "trend")]
    [last] = [row for row in with_night_events([], history, ())[1] if row["event"]]
    assert last["event_before"] - last["event_after"] == pytest.approx(0.24, abs=0.02)


def test_a_cliff_is_a_change_point_and_no_trend() -> None:
    assert events(line(CLIFF)) == [(7, "change_point")]
    [row] = [row for row in with_night_events([], line(CLIFF), ())[1] if row["event"]]
    assert (row["event_before"], row["event_after"]) == (pytest.approx(0.9), pytest.approx(0.6))


def test_gains_and_metrics_without_a_direction_bring_no_event() -> None:
    assert events(line(DECLINE[::-1])) == []
    assert events(line(CLIFF[::-1])) == []
    assert events(line(DECLINE, better=None)) == []
    assert events(line(DECLINE[::-1], better="lower")) == [(13, "trend")]
    assert events(line(DECLINE, threshold=0.3)) == []


def test_a_checkpoint_that_is_back_at_the_old_level_is_a_recovery_once() -> None:
    history = line([0.9, 0.5, 0.7, 0.9, 0.9])
    lost = pair(2, -0.4, 1e-6, mean=0.5, other_mean=0.9)
    assert events(history, [lost]) == [(4, "recovery")]
    [row] = [row for row in with_night_events([lost], history, ())[1] if row["event"]]
    assert (row["event_before"], row["event_after"]) == (0.5, 0.9)
    assert events(history) == [], "without a loss there is nothing to come back from"


def test_the_end_of_a_slow_decline_is_a_recovery() -> None:
    means = [*DECLINE, 0.91]
    gained = pair(14, 0.25, 1e-6, mean=0.91, other_mean=DECLINE[-1])
    assert events(line(means), [gained]) == [(14, "recovery")]


def test_a_moved_judge_takes_the_place_of_a_loss_on_judged_metrics_alone() -> None:
    moved = pair(2, -0.4, 1e-6, judge_n=8, judge_n_changed=3)
    for judged, event in (((), "regression"), (("accuracy",), "judge_moved")):
        assert [row["event"] for row in with_pair_events([moved], judged, "q_value")] == [event]
    one_of_many = pair(2, -0.4, 1e-6, judge_n=40, judge_n_changed=1)
    assert [row["event"] for row in with_pair_events([one_of_many], ("accuracy",), "q_value")] == [
        "regression"
    ]
    assert [
        row["event"]
        for row in with_pair_events(
            [pair(2, 0.4, 1e-6) | {"judge_n": 8, "judge_n_changed": 8}], (), "q_value"
        )
    ] == ["improvement"]
    judges = [{"judge_n": 8, "judge_n_changed": 8 * (position == 7)} for position in range(1, 13)]
    history = [row | judge for row, judge in zip(line(CLIFF), judges, strict=True)]
    assert events(history, judged=["accuracy"]) == [(7, "judge_moved")]


def test_all_pairs_of_a_night_are_adjusted_together_and_nights_apart() -> None:
    tonight = [
        pair(1, -0.1, 0.01),
        *(pair(1, -0.1, 0.5, run_id="run", metric=f"other-{number}") for number in range(9)),
    ]
    other = [pair(2, -0.1, 0.01)]
    rows, _ = with_night_events([*tonight, *other], [], ())
    assert [row["night_q"] for row in (rows[0], rows[-1])] == [
        pytest.approx(0.1),
        pytest.approx(0.01),
    ]
    assert [row["event"] for row in (rows[0], rows[-1])] == [None, "regression"]
    undirected = [{**row, "better": None} for row in tonight[1:]]
    rows, _ = with_night_events([tonight[0], *undirected], [], ())
    assert [row["event"] for row in rows] == ["regression", *[None] * 9], (
        "what can bring no event asks no question"
    )


N_NIGHTS, N_PAIRS, N_METRICS, N_POINTS, N_PROBLEMS = 24, 100, 3, 7, 60


@pytest.mark.slow
def test_nights_in_which_nothing_changed_bring_few_false_events() -> None:
    """100 pairs a night with 3 metrics each, and as many series of 7 checkpoints: scores differ by
    chance alone.

    Adjusting within each pair, as `parley compare` does, brings more than a false regression in two
    nights.
    """
    draw = np.random.default_rng(20261125)
    n_nights_with_events = n_within_pairs = 0
    for night in range(N_NIGHTS):
        compared, history = list[Row](), list[Row]()
        for number in range(N_PAIRS):
            p_values: dict[str, float | None] = {}
            for metric in range(N_METRICS):
                chance = draw.beta(2, 1, N_PROBLEMS)
                scores = (draw.random((N_POINTS, N_PROBLEMS)) < chance).astype(float)
                means = [float(mean) for mean in scores.mean(axis=1)]
                name = {
                    "metric": f"m{metric}",
                    "family": f"f{number}",
                    "run_id": f"{night}-{number}",
                }
                p_values[f"m{metric}"] = mcnemar((scores[-1] - scores[-2]).tolist())
                row = pair(night, means[-1] - means[-2], p_values[f"m{metric}"], **name)
                compared.append(row)
                history += [one | name | {"night_id": f"night-{night:02}"} for one in line(means)]
            q_values = adjusted(p_values)
            alone = [{**row, "q_value": q_values[row["metric"]]} for row in compared[-N_METRICS:]]
            n_within_pairs += sum(
                row["event"] == "regression" for row in with_pair_events(alone, (), "q_value")
            )
        pairs, marked = with_night_events(compared, history, ())
        n_nights_with_events += any(row["event"] for row in (*pairs, *marked))
    print(
        f"{n_nights_with_events} of {N_NIGHTS} nights with a false event; adjusted within "
        f"pairs: {n_within_pairs} regressions"
    )
    assert n_nights_with_events <= 4, (
        "at most 5% of the nights, and by chance of 24 seldom more than four"
    )
    assert n_within_pairs > N_NIGHTS / 2, (
        "the same scores bring false regressions where each pair is adjusted alone"
    )


def test_a_decision_takes_the_place_of_the_test() -> None:
    for decision, event in (
        ("worse", "regression"),
        ("better", "improvement"),
        ("equivalent", None),
        ("all_asked", None),
    ):
        difference = -0.4 if decision != "better" else 0.4
        decided = pair(2, difference, None, decision=decision)
        assert [row["event"] for row in with_pair_events([decided], (), "q_value")] == [event]
    assert [
        row["event"]
        for row in with_pair_events([pair(2, -0.4, 1e-6, decision="all_asked")], (), "q_value")
    ] == ["regression"]
    moved = pair(2, -0.4, None, decision="worse", judge_n=8, judge_n_changed=3)
    assert [row["event"] for row in with_pair_events([moved], ("accuracy",), "q_value")] == [
        "judge_moved"
    ]
