"""Which runs of a night go side by side. Runs whose dialogues ask the same endpoints are in one lane, in their order.

In a lane the next run makes ready (data, checks, preflight) while the one before it plays, and begins its dialogues when that one
has given all of its own to the workers: so an endpoint has no pause between two runs. Programs, judgements, scores
and checks of the earlier run go on beside them. Lanes know nothing of each other; a dead endpoint stops only its own.

Runs that could pay for the same thing twice never go side by side at all. Lanes know nothing of GPUs: a run that needs a
server of our own waits for devices when its dialogues begin.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum

from tasks.driver.signals import heed_signals
from tasks.planning.participants.concurrency import Endpoint

_HEED_EVERY_S = 0.2
_NICENESS = 10
"""Niceness of what can be done a little later."""


@dataclass(frozen=True)
class Needs:
    """What decides beside whom a run may go."""

    lane: frozenset[Endpoint]
    """Endpoints that its dialogues ask."""
    owned: frozenset[str] = frozenset()
    """What no other run may work on meanwhile: its id, and what it pays for that another run could want, too."""
    awaited: frozenset[str] = frozenset()
    """Runs that must have ended first."""
    judged: frozenset[str] = frozenset()
    """Names of the judgements that another run could be told as well, by judge and benchmark."""
    served: frozenset[str] = frozenset()
    """Models that Parley serves itself for it."""

    def excludes(self, other: "Needs") -> bool:
        """Whether the two must not be under way together."""
        return not self.owned.isdisjoint(other.owned)


class State(IntEnum):
    """How far a run is."""

    WAITING = 0
    READYING = 1
    PLAYING = 2
    TAIL = 3
    PLAYED = 4
    ENDED = 5


class Lanes:
    """The runs of a night, by their number. Safe by threads.

    Args:
        at_once: most runs under way together.
        tails: runs of a lane that may still play their last dialogues when the next one begins its own, 0 and up.
    """

    def __init__(self, needs: Sequence[Needs], at_once: int, tails: int = 1) -> None:
        self._needs, self._at_once, self._tails = tuple(needs), at_once, tails
        self._states = [State.WAITING] * len(self._needs)
        self._changed = threading.Condition()

    def begin_next(self) -> int | None:
        """Begin the first run that may be; its number. None where none may be now.

        No run is overtaken in its lane, unless it awaits another run.
        """
        with self._changed:
            under_way = [
                n for n, state in enumerate(self._states) if State.WAITING < state < State.ENDED
            ]
            if len(under_way) >= self._at_once:
                return None
            before: list[int] = []
            for number in (n for n, state in enumerate(self._states) if state is State.WAITING):
                if self._awaits_other(number):
                    continue
                if self._may_begin(number, under_way, before):
                    self._states[number] = State.READYING
                    return number
                before.append(number)
            return None

    def _awaits_other(self, number: int) -> bool:
        others = (
            self._needs[n]
            for n, state in enumerate(self._states)
            if n != number and state < State.ENDED
        )
        return any(not self._needs[number].awaited.isdisjoint(other.owned) for other in others)

    def _may_begin(self, number: int, under_way: Sequence[int], before: Sequence[int]) -> bool:
        needs = self._needs[number]
        if any(needs.excludes(self._needs[other]) for other in (*under_way, *before)):
            return False
        in_lane = [
            other for other in (*under_way, *before) if self._needs[other].lane == needs.lane
        ]
        return all(self._states[other] >= State.PLAYING for other in in_lane)

    def wait_to_play(
        self,
        number: int,
        tell_waiting: Callable[[], None] = lambda: None,
        heed: Callable[[], None] = lambda: None,
    ) -> None:
        """Return when the run may begin its dialogues. Ends with a signal.

        Args:
            tell_waiting: called first, where that is not at once.
            heed: called while it waits and at its end; ends the wait by what it raises.
        """
        with self._changed:
            if not self._may_play(number):
                tell_waiting()
            while not self._may_play(number):
                self._changed.wait(_HEED_EVERY_S)
                heed_signals()
                heed()
            heed()
            self._states[number] = State.PLAYING

    def _may_play(self, number: int) -> bool:
        lane = self._needs[number].lane
        beside = [
            state
            for n, state in enumerate(self._states)
            if n != number and self._needs[n].lane == lane
        ]
        return State.PLAYING not in beside and beside.count(State.TAIL) <= self._tails

    def is_judged_alone(self, number: int) -> bool:
        """Whether no other run that is not over could be told the same judgements while this one is under way."""
        needs = self._needs[number]
        with self._changed:
            others = [
                self._needs[n]
                for n, state in enumerate(self._states)
                if n != number and state < State.ENDED
            ]
        return all(
            needs.judged.isdisjoint(other.judged) for other in others if not needs.excludes(other)
        )

    def is_served(self, number: int) -> bool:
        """Whether Parley itself serves a model of the run."""
        return bool(self._needs[number].served)

    def reached(self, number: int, state: State) -> None:
        """The run is so far, if it was not farther before."""
        with self._changed:
            self._states[number] = max(self._states[number], state)
            self._changed.notify_all()

    def wait_for_change(self, limit_s: float) -> None:
        """Return when a run went on, or after so many seconds."""
        with self._changed:
            self._changed.wait(limit_s)


@dataclass(frozen=True)
class _Place:
    lanes: Lanes
    number: int


_place: ContextVar[_Place | None] = ContextVar("parley_place", default=None)


@contextmanager
def in_lane(lanes: Lanes, number: int) -> Iterator[None]:
    """What runs in the block is that run, which has begun; it has ended with the block."""
    token = _place.set(_Place(lanes, number))
    try:
        yield
    finally:
        _place.reset(token)
        lanes.reached(number, State.ENDED)


@contextmanager
def playing(
    tell_waiting: Callable[[], None], heed: Callable[[], None] = lambda: None
) -> Iterator[Callable[[], None]]:
    """The run's dialogues, once it is their turn; gives what is to be called when none of them waits in the driver any more.

    At once, and to no effect, where runs go one after another.

    Args:
        tell_waiting: called first, where it is not their turn at once.
        heed: called while they wait and at their turn; what it raises ends the run there.
    """
    place = _place.get()
    if place is None:
        heed()
        yield lambda: None
        return
    place.lanes.wait_to_play(place.number, tell_waiting, heed)
    try:
        yield lambda: place.lanes.reached(place.number, State.TAIL)
    finally:
        place.lanes.reached(place.number, State.PLAYED)
        if not place.lanes.is_served(
            place.number
        ):  # a model server that it starts later would give way, too
            _give_way()


def _give_way() -> None:
    """Let this run's thread wait for a processor before those that play: an endpoint would idle, and the rest can wait."""
    with suppress(OSError):  # where that is forbidden, all go alike
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def is_judged_alone() -> bool:
    """Whether no run beside this one, and none after it, could be told the same judgements. So where runs go one by one."""
    place = _place.get()
    return place is None or place.lanes.is_judged_alone(place.number)
