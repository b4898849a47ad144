"""Parallel execution of a night's runs, each in its own thread. Runs that share endpoints queue.

The main thread starts the runs, reacts to signals and collects the reports.

In a queue the next run prepares (data, checks, preflight) while the previous one plays. It begins
its dialogues when all dialogues of the previous run are at the workers, so an endpoint has no pause
between two runs. Programs, judgements, scores and checks of the earlier run continue in
parallel. Queues are independent: a dead endpoint stops only its own queue.

Runs that could pay twice for the same work never execute in parallel. The schedule does not
consider GPUs: a run that needs a model server waits for devices when its dialogues begin.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from enum import IntEnum
from functools import partial

from flows.night.session import Session
from tasks.driver.judging import judgements_of
from tasks.driver.signals import HaltableThread, heed_signals, stop_asked
from tasks.language.providers.registry import is_served_here
from tasks.planning.decisions.baseline import await_baselines
from tasks.planning.participants.models import Endpoint, concurrency_by_endpoint, endpoints_of
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.report import RunReport
from tasks.planning.request import EvaluationRequest

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


RUNS_AT_ONCE = 16
_AFTER_SIGNAL_S, _AFTER_FAULT_S = 2.0, 15.0
"""Seconds for which the night waits for its other runs to end: after a signal, and after an error.

A signal leaves 8 s for everything (`tasks.driver.signals`).
"""


def side_by_side(
    session: Session,
    requests: Sequence[EvaluationRequest],
    at_once: int,
    evaluate: Callable[[QueuedRun], RunReport],
) -> list[RunReport]:
    """Evaluate all requests, as many in parallel as their queues and `at_once` allow.

    Args:
        session: The invocation.
        requests: One request per run.
        at_once: Maximum number of parallel runs.
        evaluate: Evaluates the request whose index is the run's number. It is called in several
            threads.

    Returns:
        One report per request, in the order of the requests.

    Raises:
        DiskFull, Exception: The first exception that a run raised instead of returning a report.
            The other runs are stopped first.
    """
    plans = [session.plan_of(request) for request in requests]
    if any(request.decide for request in requests):
        await_baselines([plan for plan in plans if plan])
    narrow = too_narrow([plan for plan in plans if plan], session.workers)
    needs = [
        needs_of(plan, narrow) if plan else Needs(frozenset({(f"unplanned {n}", None)}))
        for n, plan in enumerate(plans)
    ]
    unfinished = [plan for plan in plans if plan and not plan.is_finished()]
    if unfinished:
        # Start the client before the runs: for a moment it removes API keys from the environment,
        # and a run's thread would not find them.
        session.client()
    # With caps, no run begins while another finishes: a cap could stop both.
    queue = RunQueue(needs, at_once, finishing=0 if session.spending else 1)
    session.servers.expect(unfinished)
    reports: list[Future[RunReport]] = [Future() for _ in requests]
    threads: list[HaltableThread] = []

    def work(number: int) -> None:
        try:
            reports[number].set_result(evaluate(QueuedRun(queue, number)))
        except BaseException as error:  # noqa: BLE001  (raised again in the main thread)
            reports[number].set_exception(error)
        finally:
            session.board.end()
            if plan := plans[number]:
                session.servers.leave(plan.run_id)
            queue.advance(number, State.ENDED)

    session.board.end()
    try:
        while not all(report.done() for report in reports):
            heed_signals()
            while (number := queue.begin_next()) is not None:
                # The context contains Prefect's flow run, the parent of the run's own.
                run = partial(copy_context().run, work, number)
                threads.append(HaltableThread(target=run, name=f"parley-run-{number}", daemon=True))
                threads[-1].start()
            queue.wait_for_change(_HEED_EVERY_S)
            for report in reports:
                if report.done():
                    report.result()
        return [report.result() for report in reports]
    finally:
        for thread in threads:
            thread.halt()
        _join(threads)


def baselines_first(session: Session, requests: Sequence[EvaluationRequest]) -> list[int]:
    """Return the order of a night's sequential requests: as listed, but each after its baseline."""
    if not any(request.decide for request in requests):
        return list(range(len(requests)))
    plans = [session.plan_of(request) for request in requests]
    await_baselines([plan for plan in plans if plan])
    left, order = dict(enumerate(plans)), list[int]()
    while left:
        pending = {plan.run_id for plan in left.values() if plan}
        number = next(
            (n for n, plan in left.items() if plan is None or plan.awaits not in pending), min(left)
        )
        order.append(number)
        del left[number]
    return order


def _join(threads: Sequence[HaltableThread]) -> None:
    deadline = time.monotonic() + (_AFTER_SIGNAL_S if stop_asked() else _AFTER_FAULT_S)
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def too_narrow(plans: Sequence[RunPlan], workers: int) -> frozenset[Endpoint]:
    """Return the endpoints whose maximum concurrency is below the number of workers.

    Each worker limits only its own requests and sends at least one, so two runs at once would
    exceed the maximum even more.
    """
    return frozenset(
        endpoint
        for plan in plans
        for endpoint, n in concurrency_by_endpoint(plan.models).items()
        if n < workers
    )


def needs_of(plan: RunPlan, narrow: frozenset[Endpoint] = frozenset()) -> Needs:
    """Return the needs of a run, which decide which runs may execute in parallel.

    A need is a queue, an episode, a baseline, a judgement or a server.

    Of two runs that need the same episode, one pays and the other reuses it.

    Args:
        plan: Plan of the run.
        narrow: Endpoints that only one run at a time may use.
    """
    endpoints = endpoints_of(plan.subject, plan.simulator)
    alone = (f"all of {address}" for address, _ in endpoints & narrow)
    judged = judgements_of(plan)
    # A run with `decide` is judged while it is played, and nothing may be paid for twice.
    in_step = judged if plan.request.decide else ()
    return Needs(
        endpoints=endpoints,
        claims=frozenset({plan.run_id, *alone, *in_step, *plan.pending().ids.to_pylist()}),
        prerequisites=frozenset({plan.awaits} if plan.awaits else ()),
        judgements=judged,
        served_models=frozenset(
            str(model.identity) for model in plan.models if is_served_here(model.identity.provider)
        ),
    )
