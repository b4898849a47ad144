"""Which runs may go side by side, and when the next of a queue begins its dialogues."""

import os
import threading
from collections.abc import Sequence

import pytest

from flows.night.run_queue import Needs, QueuedRun, RunQueue, State, only_run
from tasks.driver.signals import HaltableThread, Halted

A, B = ("http://a/v1", None), ("http://b/v1", None)


def queue_of(*needs: Needs, at_once: int = 16) -> RunQueue:
    return RunQueue(needs, at_once)


def on(*endpoints: tuple[str, None], owned: str = "", served: str = "", awaited: str = "") -> Needs:
    return Needs(
        frozenset(endpoints),
        frozenset({owned} - {""}),
        served_models=frozenset({served} - {""}),
        prerequisites=frozenset({awaited} - {""}),
    )


def begun(queue: RunQueue) -> Sequence[int]:
    found = []
    while (number := queue.begin_next()) is not None:
        found.append(number)
    return found


def test_one_run_of_each_queue_makes_ready_and_the_next_one_while_it_plays() -> None:
    queue = queue_of(on(A), on(A), on(A), on(B), on(A, B))
    assert begun(queue) == [0, 3, 4]
    queue.wait_to_play(0)
    assert begun(queue) == [1]
    queue.advance(0, State.ENDED)
    assert begun(queue) == [], "the second run of the queue is not playing yet"


def test_a_run_that_awaits_a_later_one_lets_others_of_its_queue_pass() -> None:
    queue = queue_of(
        on(A, owned="new", awaited="old"),
        on(A, owned="other", awaited="old"),
        on(A, owned="old"),
        on(B),
    )
    assert begun(queue) == [2, 3]
    queue.wait_to_play(2)
    assert begun(queue) == [], "the awaited run has not ended"
    queue.advance(2, State.ENDED)
    assert begun(queue) == [0]


@pytest.mark.slow
def test_dialogues_begin_in_the_tail_of_the_run_before_and_no_third_beside_two() -> None:
    queue = queue_of(on(A), on(A), on(A))
    said: list[str] = []

    def play(number: int) -> threading.Thread:
        thread = threading.Thread(
            target=lambda: (queue.wait_to_play(number), said.append(f"plays {number}")), daemon=True
        )
        thread.start()
        return thread

    begun(queue)
    queue.wait_to_play(0)
    begun(queue)
    second = play(1)
    second.join(0.5)
    assert said == [], "the first still has dialogues that wait in the driver"
    queue.advance(0, State.FINISHING)
    second.join(10)
    begun(queue)
    queue.advance(1, State.FINISHING)
    third = play(2)
    third.join(0.5)
    assert said == ["plays 1"]
    queue.advance(0, State.PLAYED)
    third.join(10)
    assert said == ["plays 1", "plays 2"]


def test_runs_that_could_pay_twice_wait_for_the_end_and_are_not_overtaken() -> None:
    first, other = on(A, owned="an episode"), on(B, owned="an episode")
    queue = queue_of(first, other, other)
    assert begun(queue) == [0]
    queue.advance(0, State.PLAYED)
    assert begun(queue) == []
    queue.advance(0, State.ENDED)
    assert begun(queue) == [1]


def test_runs_of_different_models_of_our_own_go_side_by_side() -> None:
    assert begun(queue_of(on(A, served="a model of our own"), on(B, served="another one"))) == [
        0,
        1,
    ]


def test_no_more_runs_than_allowed_are_under_way_and_an_ended_one_makes_room() -> None:
    queue = queue_of(on(A), on(B), on(A, B), at_once=2)
    assert begun(queue) == [0, 1]
    with QueuedRun(queue, 1).playing(lambda: None):
        assert begun(queue) == []
    queue.advance(1, State.ENDED)
    assert begun(queue) == [2]


def test_who_waits_for_a_turn_ends_with_the_night() -> None:
    queue, ended = queue_of(on(A), on(A)), list[BaseException]()
    begun(queue)
    queue.wait_to_play(0)
    begun(queue)

    def wait() -> None:
        try:
            queue.wait_to_play(1)
        except Halted as error:
            ended.append(error)

    thread = HaltableThread(target=wait, daemon=True)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    thread.halt()
    thread.join(10)
    assert len(ended) == 1


def test_with_no_tails_a_run_waits_for_the_last_answer_of_the_one_before_and_what_it_heeds_ends_the_wait() -> (
    None
):
    queue = RunQueue([on(A), on(A)], 16, finishing=0)
    begun(queue)
    queue.wait_to_play(0)
    assert begun(queue) == [1]
    queue.advance(0, State.FINISHING)

    def heed() -> None:
        raise TimeoutError("a cap is met")

    with pytest.raises(TimeoutError, match="a cap is met"):
        queue.wait_to_play(1, heed=heed)
    queue.advance(0, State.PLAYED)
    queue.wait_to_play(1)


def test_what_follows_the_dialogues_of_a_run_gives_way_to_other_runs() -> None:
    queue, seen = queue_of(on(A), on(B, served="a judge")), list[int]()

    def niceness() -> None:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    def run(number: int = 0) -> None:
        with QueuedRun(queue, number).playing(lambda: None):
            niceness()
        niceness()

    def alone() -> None:
        with only_run().playing(lambda: None):
            pass
        niceness()

    begun(queue)
    for work in (run, lambda: run(1), alone):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    assert seen == [usual, max(usual, 10), usual, usual, usual], (
        "a server that a run starts would have its thread's niceness"
    )
