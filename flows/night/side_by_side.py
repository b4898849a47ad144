"""Parallel execution of a night's runs, each in its own thread.

The main thread starts the runs, reacts to signals and collects the reports.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial

from flows.night.session import Session
from tasks.driver.judging import judgements_of
from tasks.driver.run_queue import Needs, QueuedRun, RunQueue, State
from tasks.driver.signals import HaltableThread, heed_signals, stop_asked
from tasks.language.providers.registry import is_served_here
from tasks.planning.decisions.baseline import await_baselines
from tasks.planning.participants.models import Endpoint, concurrency_by_endpoint, endpoints_of
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.report import RunReport
from tasks.planning.request import EvaluationRequest

RUNS_AT_ONCE = 16
_LOOK_EVERY_S = 0.2
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
            queue.wait_for_change(_LOOK_EVERY_S)
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
        for endpoint, n in concurrency_by_endpoint(plan).items()
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
    endpoints = endpoints_of(plan)
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
            str(access.identity)
            for access, _ in plan.models
            if is_served_here(access.identity.provider)
        ),
    )
