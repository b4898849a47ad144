"""Which runs may go side by side, and when the next of a lane begins its dialogues."""

import os
import threading
from collections.abc import Sequence

import pytest

from tasks.driver.lanes import Lanes, Needs, State, in_lane, playing
from tasks.driver.signals import Halted, halted_by

A, B = ("http://a/v1", None), ("http://b/v1", None)


def lanes_of(*needs: Needs, at_once: int = 16) -> Lanes:
    return Lanes(needs, at_once)


def on(*endpoints: tuple[str, None], owned: str = "", served: str = "", awaited: str = "") -> Needs:
    return Needs(
        frozenset(endpoints),
        frozenset({owned} - {""}),
        served=frozenset({served} - {""}),
        awaited=frozenset({awaited} - {""}),
    )


def begun(lanes: Lanes) -> Sequence[int]:
    found = []
    while (number := lanes.begin_next()) is not None:
        found.append(number)
    return found


def test_one_run_of_each_lane_makes_ready_and_the_next_one_while_it_plays() -> None:
    lanes = lanes_of(on(A), on(A), on(A), on(B), on(A, B))
    assert begun(lanes) == [0, 3, 4]
    lanes.wait_to_play(0)
    assert begun(lanes) == [1]
    lanes.reached(0, State.ENDED)
    assert begun(lanes) == [], "the second run of the lane is not playing yet"


def test_a_run_that_awaits_a_later_one_lets_others_of_its_lane_pass() -> None:
    lanes = lanes_of(
        on(A, owned="new", awaited="old"),
        on(A, owned="other", awaited="old"),
        on(A, owned="old"),
        on(B),
    )
    assert begun(lanes) == [2, 3]
    lanes.wait_to_play(2)
    assert begun(lanes) == [], "the awaited run has not ended"
    lanes.reached(2, State.ENDED)
    assert begun(lanes) == [0]


@pytest.mark.slow
def test_dialogues_begin_in_the_tail_of_the_run_before_and_no_third_beside_two() -> None:
    lanes = lanes_of(on(A), on(A), on(A))
    said: list[str] = []

    def play(number: int) -> threading.Thread:
        thread = threading.Thread(
            target=lambda: (lanes.wait_to_play(number), said.append(f"plays {number}")), daemon=True
        )
        thread.start()
        return thread

    begun(lanes)
    lanes.wait_to_play(0)
    begun(lanes)
    second = play(1)
    second.join(0.5)
    assert said == [], "the first still has dialogues that wait in the driver"
    lanes.reached(0, State.TAIL)
    second.join(10)
    begun(lanes)
    lanes.reached(1, State.TAIL)
    third = play(2)
    third.join(0.5)
    assert said == ["plays 1"]
    lanes.reached(0, State.PLAYED)
    third.join(10)
    assert said == ["plays 1", "plays 2"]


def test_runs_that_could_pay_twice_wait_for_the_end_and_are_not_overtaken() -> None:
    first, other = on(A, owned="an episode"), on(B, owned="an episode")
    lanes = lanes_of(first, other, other)
    assert begun(lanes) == [0]
    lanes.reached(0, State.PLAYED)
    assert begun(lanes) == []
    lanes.reached(0, State.ENDED)
    assert begun(lanes) == [1]


def test_runs_of_different_models_of_our_own_go_side_by_side() -> None:
    assert begun(lanes_of(on(A, served="a model of our own"), on(B, served="another one"))) == [
        0,
        1,
    ]


def test_no_more_runs_than_allowed_are_under_way_and_an_ended_one_makes_room() -> None:
    lanes = lanes_of(on(A), on(B), on(A, B), at_once=2)
    assert begun(lanes) == [0, 1]
    with in_lane(lanes, 1), playing(lambda: None):
        assert begun(lanes) == []
    assert begun(lanes) == [2]


def test_who_waits_for_a_turn_ends_with_the_night() -> None:
    lanes, halt = lanes_of(on(A), on(A)), threading.Event()
    begun(lanes)
    lanes.wait_to_play(0)
    begun(lanes)
    threading.Timer(0.3, halt.set).start()
    with halted_by(halt), pytest.raises(Halted):
        lanes.wait_to_play(1)


def test_with_no_tails_a_run_waits_for_the_last_answer_of_the_one_before_and_what_it_heeds_ends_the_wait() -> (
    None
):
    lanes = Lanes([on(A), on(A)], 16, tails=0)
    begun(lanes)
    lanes.wait_to_play(0)
    assert begun(lanes) == [1]
    lanes.reached(0, State.TAIL)

    def heed() -> None:
        raise TimeoutError("a cap is met")

    with pytest.raises(TimeoutError, match="a cap is met"):
        lanes.wait_to_play(1, heed=heed)
    lanes.reached(0, State.PLAYED)
    lanes.wait_to_play(1)


def test_what_follows_the_dialogues_of_a_run_gives_way_to_other_runs() -> None:
    lanes, seen = lanes_of(on(A), on(B, served="a judge")), list[int]()

    def niceness() -> None:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    def run(number: int = 0) -> None:
        with in_lane(lanes, number), playing(lambda: None):
            niceness()
        niceness()

    def alone() -> None:
        with playing(lambda: None):
            pass
        niceness()

    begun(lanes)
    for work in (run, lambda: run(1), alone):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    assert seen == [usual, max(usual, 10), usual, usual, usual], (
        "a server that a run starts would have its thread's niceness"
    )
