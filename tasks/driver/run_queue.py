"""Scheduling of a night's runs. Runs that send dialogues to the same endpoints form a queue.

In a queue the next run prepares (data, checks, preflight) while the previous one plays. It begins
its dialogues when all dialogues of the previous run are at the workers, so an endpoint has no pause
between two runs. Programs, judgements, scores and checks of the earlier run continue in
parallel. Queues are independent: a dead endpoint stops only its own queue.

Runs that could pay twice for the same work never execute in parallel. The schedule does not
consider GPUs: a run that needs a model server waits for devices when its dialogues begin.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum

from tasks.driver.signals import heed_signals
from tasks.planning.participants.models import Endpoint

_HEED_EVERY_S = 0.2
_NICENESS = 10
"""Unix niceness of a run's thread after its dialogues: programs, scores and checks."""


@dataclass(frozen=True)
class Needs:
    """Resources of a run that decide which other runs may execute in parallel."""

    endpoints: frozenset[Endpoint]
    """Endpoints that the run's dialogues use. Runs with equal endpoints form a queue."""
    claims: frozenset[str] = frozenset()
    """Names of work that only one run may do at a time.

    Examples: the run's id, and its pending episodes, which another run may need too.
    """
    prerequisites: frozenset[str] = frozenset()
    """Ids of runs that must end first."""
    judgements: frozenset[str] = frozenset()
    """Judge and benchmark of the run's judgements, as one text each (see `judgements_of`)."""
    served_models: frozenset[str] = frozenset()
    """Models that Parley serves for the run."""

    def excludes(self, other: "Needs") -> bool:
        """Return True if the two runs must not execute in parallel."""
        return not self.claims.isdisjoint(other.claims)


class State(IntEnum):
    """Progress of a run. FINISHING: all dialogues of the run are in flight or ended."""

    WAITING = 0
    PREPARING = 1
    PLAYING = 2
    FINISHING = 3
    PLAYED = 4
    ENDED = 5


class RunQueue:
    """Schedule of a night's runs. A run is named by its 0-based number. Thread-safe.

    Args:
        at_once: Maximum number of parallel runs.
        finishing: Maximum number of runs per queue that may be FINISHING when the next one plays.
    """

    def __init__(self, needs: Sequence[Needs], at_once: int, finishing: int = 1) -> None:
        self._needs, self._at_once, self._finishing = tuple(needs), at_once, finishing
        self._states = [State.WAITING] * len(self._needs)
        self._changed = threading.Condition()

    @property
    def n_runs(self) -> int:
        """Number of the night's runs."""
        return len(self._needs)

    def begin_next(self) -> int | None:
        """Begin the first run that may begin and return its number; None if no run may.

        Runs of a queue keep their order, but a run with unfinished prerequisites is skipped.
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
                    self._states[number] = State.PREPARING
                    return number
                before.append(number)
            return None

    def _awaits_other(self, number: int) -> bool:
        others = (
            self._needs[n]
            for n, state in enumerate(self._states)
            if n != number and state < State.ENDED
        )
        return any(
            not self._needs[number].prerequisites.isdisjoint(other.claims) for other in others
        )

    def _may_begin(self, number: int, under_way: Sequence[int], before: Sequence[int]) -> bool:
        needs = self._needs[number]
        if any(needs.excludes(self._needs[other]) for other in (*under_way, *before)):
            return False
        same_queue = [
            other
            for other in (*under_way, *before)
            if self._needs[other].endpoints == needs.endpoints
        ]
        return all(self._states[other] >= State.PLAYING for other in same_queue)

    def wait_to_play(
        self,
        number: int,
        on_wait: Callable[[], None] = lambda: None,
        heed: Callable[[], None] = lambda: None,
    ) -> None:
        """Wait until the run may begin its dialogues.

        Args:
            on_wait: Called first if the run must wait.
            heed: Called repeatedly during the wait, and once at the end. It may raise an exception
                to end the wait.

        Raises:
            SystemExit, KeyboardInterrupt: A signal was received.
        """
        with self._changed:
            if not self._may_play(number):
                on_wait()
            while not self._may_play(number):
                self._changed.wait(_HEED_EVERY_S)
                heed_signals()
                heed()
            heed()
            self._states[number] = State.PLAYING

    def _may_play(self, number: int) -> bool:
        endpoints = self._needs[number].endpoints
        beside = [
            state
            for n, state in enumerate(self._states)
            if n != number and self._needs[n].endpoints == endpoints
        ]
        return State.PLAYING not in beside and beside.count(State.FINISHING) <= self._finishing

    def is_judged_alone(self, number: int) -> bool:
        """Return True if no other unfinished run could request the same judgements in parallel."""
        needs = self._needs[number]
        with self._changed:
            others = [
                self._needs[n]
                for n, state in enumerate(self._states)
                if n != number and state < State.ENDED
            ]
        return all(
            needs.judgements.isdisjoint(other.judgements)
            for other in others
            if not needs.excludes(other)
        )

    def is_served(self, number: int) -> bool:
        """Return True if Parley serves a model of the run."""
        return bool(self._needs[number].served_models)

    def advance(self, number: int, state: State) -> None:
        """Advance the run to `state`. Never move it backwards."""
        with self._changed:
            self._states[number] = max(self._states[number], state)
            self._changed.notify_all()

    def wait_for_change(self, limit_s: float) -> None:
        """Wait until a run advances, at most `limit_s` seconds."""
        with self._changed:
            self._changed.wait(limit_s)


@dataclass(frozen=True)
class QueuedRun:
    """Run of a queue, by its number. It has begun."""

    queue: RunQueue
    number: int

    @contextmanager
    def playing(
        self, on_wait: Callable[[], None], heed: Callable[[], None] = lambda: None
    ) -> Iterator[Callable[[], None]]:
        """Wait until the run may play its dialogues. It plays them in the block.

        Yield a callback. The block must call it when no dialogue waits in the driver any more. If
        runs execute one after another, there is no wait.

        Args:
            on_wait: Called first if the run must wait.
            heed: Called repeatedly during the wait, and once at the end. It may raise an exception
                to end the run.
        """
        queue, number = self.queue, self.number
        queue.wait_to_play(number, on_wait, heed)
        try:
            yield lambda: queue.advance(number, State.FINISHING)
        finally:
            queue.advance(number, State.PLAYED)
            # A model server that the run starts later would inherit the niceness.
            if queue.n_runs > 1 and not queue.is_served(number):
                _lower_priority()

    def is_judged_alone(self) -> bool:
        """Return True if no parallel or later run could request the judgements of this run."""
        return self.queue.is_judged_alone(self.number)


def only_run() -> QueuedRun:
    """Return a run that no other run executes in parallel with."""
    return QueuedRun(RunQueue([Needs(frozenset())], 1), 0)


def _lower_priority() -> None:
    """Lower the priority of this run's thread, whose dialogues have ended.

    Runs with dialogues in progress have priority, because their endpoints would idle.
    """
    with suppress(OSError):  # Where the system forbids it, all runs have equal priority.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
