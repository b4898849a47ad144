"""Shards go to the workers of a named cluster that declare what they ask for."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

from distributed import Client, Scheduler, SpecCluster, Worker, get_worker

from tasks.driver.fan_out import fan_out, needs
from tasks.planning.plan import NO_SANDBOX
from tasks.worker.jobs import ConverseShard, ExecuteShard, JudgeShard

_under_way = threading.Semaphore(1)


@contextmanager
def cluster(*resources: dict[str, float]) -> Iterator[Client]:
    """A client of a cluster with a worker for each."""
    workers = {
        n: {"cls": Worker, "options": {"nthreads": 4, "resources": has}}
        for n, has in enumerate(resources)
    }
    scheduler = {"cls": Scheduler, "options": {"dashboard": False, "protocol": "inproc://"}}
    with SpecCluster(scheduler=scheduler, workers=workers) as made, Client(made) as client:
        client.wait_for_workers(len(resources), timeout=60)
        yield client


def programs(number: int) -> ExecuteShard:
    return ExecuteShard(cast(Any, None), str(number), ())


def dialogues(n_episodes: int, sandbox: str) -> ConverseShard:
    context: Any = SimpleNamespace(spec=SimpleNamespace(sandbox=sandbox))
    return ConverseShard(context, cast(Any, tuple(range(n_episodes))))


def place_of(_: object) -> Any:
    return get_worker().name


def alone(shard: object) -> Any:
    """Where it runs; fails where another one runs beside it."""
    assert _under_way.acquire(blocking=False), "two at once"
    time.sleep(0.02)
    _under_way.release()
    return place_of(shard)


def test_programs_go_to_the_worker_with_a_sandbox_as_many_at_once_as_it_says() -> None:
    with cluster({}, {"sandbox": 1}) as client:
        results, lost = fan_out(client, alone, [programs(n) for n in range(6)])
    assert (results, lost) == ([1] * 6, [])


def test_dialogues_of_a_run_with_programs_are_dealt_to_workers_with_a_sandbox_and_leave_it_free() -> (
    None
):
    with cluster({}, {"sandbox": 1}, {"sandbox": 1}) as client:
        dealt, _ = fan_out(
            client, place_of, [dialogues(2, "bubblewrap") for _ in range(8)], in_turn=True
        )
        anywhere, _ = fan_out(
            client, place_of, [dialogues(2, NO_SANDBOX) for _ in range(9)], in_turn=True
        )
    assert set(dealt) == {1, 2}
    assert set(anywhere) == {0, 1, 2}


def test_a_shard_that_asks_for_more_than_any_worker_has_takes_all_of_it() -> None:
    with cluster({"model_calls": 3}, {"model_calls": 1}) as client:
        results, lost = fan_out(client, place_of, [dialogues(5, NO_SANDBOX)] * 2)
    assert (results, lost) == ([0, 0], [])


def test_where_nothing_is_declared_nothing_is_asked_for() -> None:
    with cluster({}, {}) as client:
        results, lost = fan_out(
            client,
            place_of,
            [programs(n) for n in range(2)] + [dialogues(3, "bubblewrap")] * 2,
            in_turn=True,
        )
    assert (sorted(results), lost) == ([0, 0, 1, 1], [])


def test_judgements_ask_for_a_call_each() -> None:
    assert needs(JudgeShard(cast(Any, None), "x", cast(Any, ("one", "two")))) == {"model_calls": 2}
