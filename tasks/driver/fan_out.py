"""Distribution of many shards over Dask workers, with results as they arrive.

Workers may declare Dask resources, such as `dask worker … --resources "sandbox=4"`. A shard never
asks for a resource that no worker declares, so a cluster without declarations works too.
"""

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, overload
from uuid import uuid4

from schemas.errors import ServerUnavailable
from tasks.driver.signals import heed_signals
from tasks.planning.plan import NO_SANDBOX
from tasks.storage.journaling.leases import LeaseLost
from tasks.worker.jobs import AuditShard, ConverseShard, ExecuteShard, JudgeShard, run_packed
from tasks.worker.process import close_run

MODEL_CALLS = "model_calls"
"""Dask resource: number of parallel dialogues or judgements, each with one open request."""
SANDBOX = "sandbox"
"""Dask resource: number of parallel shards of programs.

Dialogues of a run with programs go to workers that declare this resource, but do not reserve it.
"""
Resources = Mapping[str, float]


class ClusterResources:
    """Resources that the workers of a cluster currently declare to its scheduler."""

    def __init__(self, client: Any) -> None:
        self._client = client
        workers = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
        self._of: dict[str, Resources] = {
            address: dict(worker.get("resources") or {}) for address, worker in workers.items()
        }
        self._most: dict[str, float] = {}
        for has in self._of.values():
            for name, amount in has.items():
                self._most[name] = max(amount, self._most.get(name, 0.0))

    def place(self, shard: object) -> dict[str, Any]:
        """Return Dask's arguments for the resources of a shard.

        A shard asks for at most what the largest worker has. A larger amount would wait for ever.
        """
        resources = {
            name: min(amount, self._most[name])
            for name, amount in needs(shard).items()
            if name in self._most
        }
        return {"resources": resources} if resources else {}

    def submit(self, function: Callable[[Any], Any], shard: object, **where: Any) -> Any:
        """Submit a shard to a worker with the resources that it needs, and return the future.

        Args:
            where: Further arguments of Dask's `submit`, such as `workers` and `priority`.
        """
        key = f"{function.__name__}-{uuid4()}"
        packed = pickle.dumps(shard, pickle.HIGHEST_PROTOCOL)
        return self._client.submit(
            run_packed,
            function,
            packed,
            key=key,
            pure=False,
            retries=0,
            **where,
            **self.place(shard),
        )

    def able(self, workers: tuple[str, ...], shard: object) -> tuple[str, ...]:
        """Return those of `workers` that declare the resources that a shard needs."""
        resources: Resources = self.place(shard).get("resources", {})
        return tuple(
            worker
            for worker in workers
            if all(
                self._of.get(worker, {}).get(name, -1.0) >= resources[name] for name in resources
            )
        )


def needs(shard: object) -> Resources:
    """Return the Dask resources that a shard needs."""
    if isinstance(shard, ConverseShard):
        has_programs = shard.context.spec.sandbox != NO_SANDBOX
        return {MODEL_CALLS: len(shard.episodes), **({SANDBOX: 0} if has_programs else {})}
    if isinstance(shard, ExecuteShard | AuditShard):
        return {SANDBOX: 1}
    if isinstance(shard, JudgeShard):
        return {MODEL_CALLS: len(shard.jobs)}
    return {}


S = TypeVar("S")
R = TypeVar("R")
T = TypeVar("T")
REPLACED_S = 30.0
"""Seconds to wait for a replacement of a dead worker. A start takes some 3 s on an idle machine."""
SHARDS_IN_FLIGHT = 8
"""Number of shards in flight per worker process.

A shard costs some 15 ms in the worker and as much in the driver, which reads its Parquet part. More
shards would waste that time. Fewer would leave the worker idle at the end of a shard.
"""
_WORTHWHILE = 16
"""Smallest useful number of items per shard.

A worker with fewer than 32 slots gets shards of half its slots, so two shards are in flight.
"""
_USUAL_ANSWERS = 6
"""Number of answers per item at which shards have their usual size."""
_HEED_EVERY_S = 0.2


class LazyShards(Sequence[S]):
    """Sequence that makes each shard from its item on access. Only shards in flight are in memory.

    Args:
        make: Returns the shard of an item.
    """

    def __init__(self, make: Callable[[T], S], items: Sequence[T]) -> None:
        self._make, self._items = make, items

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, at: int) -> S: ...
    @overload
    def __getitem__(self, at: slice) -> "LazyShards[S]": ...
    def __getitem__(self, at: int | slice) -> "S | LazyShards[S]":
        if isinstance(at, slice):
            return LazyShards(self._make, self._items[at])
        return self._make(self._items[at])


def living_workers(client: Any, limit_s: float = REPLACED_S) -> tuple[str, ...]:
    """Return the addresses of the client's workers, at least one.

    If all workers died, wait for the first new one. The scheduler is asked directly, because the
    client's own refresh empties `scheduler_info` every two seconds.

    Raises:
        ServerUnavailable: No worker appeared within `limit_s`.
    """
    deadline = time.monotonic() + limit_s
    while not (addresses := client.nthreads()):
        if time.monotonic() > deadline:
            raise ServerUnavailable(
                f"the Dask cluster has had no worker for {limit_s:g} s. Start one (`dask worker`) "
                "or unset PARLEY_DASK_ADDRESS. If the cluster is of this machine, check its free "
                "memory. Type the same command again to resume"
            )
        heed_signals()
        time.sleep(0.1)
    return tuple(sorted(addresses))


@contextmanager
def closing_run(client: Any, run_id: str) -> Iterator[None]:
    """Close a run in the workers at the block's end.

    After a signal nothing is closed: the workers may be dead or about to end.
    """
    try:
        yield
    except Exception:  # Whatever ended the block, the workers release the run.
        client.run(close_run, run_id)
        raise
    client.run(close_run, run_id)


def fan_out(
    client: Any,
    function: Callable[[S], R],
    shards: Sequence[S],
    on_result: Callable[[R], None] = lambda _: None,
    *,
    at_once: int | None = None,
    in_turn: bool = False,
    on_begun: Callable[[S], None] = lambda _: None,
    on_all_begun: Callable[[], None] = lambda: None,
    is_enough: Callable[[], bool] = lambda: False,
    is_ahead: Callable[[], bool] = lambda: False,
    is_probably_enough: Callable[[], bool] = lambda: False,
) -> tuple[list[R], list[S]]:
    """Run `function` on each shard, on the client's workers, in the order of submission.

    Args:
        at_once: Maximum number of shards in flight, per worker if `in_turn`. With None the workers'
            threads are the limit, and shards of other runs wait for them.
        in_turn: The shards were dealt by `dealt_shards`. Each goes to its worker, or to another one
            if its worker died.
        on_begun: Called with each shard that is given to a worker.
        on_all_begun: Called once, when no shard waits in the driver any more, or when the begun
            shards are probably enough.
        is_enough: Returns True if no further shard is needed. Shards in flight finish and count.
        is_ahead: Returns True to begin no shard for now, because earlier results are still
            evaluated.
        is_probably_enough: Returns True to begin no shard for now, because those in flight are
            expected to suffice. If they do not, the remaining shards follow.

    Returns:
        Results in order of arrival, and the shards whose worker died. The journaled turns of such
        shards are stored. Their other turns remain pending.

    Raises:
        ServerUnavailable: The cluster is gone.
        Exception: A shard raised it. The other shards are cancelled first. Finished work stays
            stored.
    """
    from distributed.scheduler import KilledWorker

    resources = ClusterResources(client)
    queues = _WorkerQueues(
        shards,
        resources.able(living_workers(client), shards[0]) if in_turn and shards else (),
        at_once,
    )
    futures: dict[Any, tuple[int, S]] = {}
    arrived: SimpleQueue[Any] = SimpleQueue()

    def submit() -> None:
        if is_enough():
            queues.empty()
        if is_ahead() or (futures and is_probably_enough()):
            return
        for number, shard, place in queues.next():
            on_begun(shard)
            future = resources.submit(function, shard, priority=-number, **place)
            futures[future] = number, shard
            future.add_done_callback(arrived.put)

    results: list[R] = []
    lost: list[S] = []
    is_told = False
    try:
        submit()
        while futures or not queues.are_empty:
            heed_signals()
            submit()
            if not is_told and (queues.are_empty or is_probably_enough()):
                is_told = True
                on_all_begun()
            try:
                future = arrived.get(timeout=_HEED_EVERY_S)
            except Empty:
                continue
            # Dask's scheduler in this process holds a shard as long as its future.
            number, shard = futures.pop(future)
            queues.returned(number)
            submit()
            try:
                result = future.result()
            except (KilledWorker, LeaseLost):
                lost.append(shard)
                continue
            results.append(result)
            on_result(result)
    except (OSError, TimeoutError) as error:
        if client.status != "running":
            raise ServerUnavailable(
                f"the Dask cluster stopped answering ({error}). "
                "Type the same command again to resume"
            ) from error
        raise
    finally:
        client.cancel([future for future in futures if not future.done()], force=True)
    return results, lost


class _WorkerQueues:
    """Queue of waiting shards for each worker, with the worker's number of free slots."""

    def __init__(self, shards: Sequence[Any], workers: Sequence[str], at_once: int | None) -> None:
        self._shards, self._workers = shards, workers
        self._n_queues = max(1, len(workers))
        self._waiting = [
            deque(range(queue, len(shards), self._n_queues)) for queue in range(self._n_queues)
        ]
        self._free = [len(shards) if at_once is None else at_once] * self._n_queues

    @property
    def are_empty(self) -> bool:
        return not any(self._waiting)

    def empty(self) -> None:
        for waiting in self._waiting:
            waiting.clear()

    def returned(self, number: int) -> None:
        self._free[number % self._n_queues] += 1

    def next(self) -> Iterator[tuple[int, Any, dict[str, Any]]]:
        """Yield (number, shard, Dask arguments) of each shard that may begin, worker by worker."""
        while ready := [
            queue for queue in range(self._n_queues) if self._waiting[queue] and self._free[queue]
        ]:
            for queue in ready:
                self._free[queue] -= 1
                number = self._waiting[queue].popleft()
                yield number, self._shards[number], self._place(queue)

    def _place(self, queue: int) -> dict[str, Any]:
        return (
            {"workers": [self._workers[queue]], "allow_other_workers": True}
            if self._workers
            else {}
        )


def shard_size(
    slots: int, n_items: int, n_answers: int, n_workers: int, *, is_least: bool = False
) -> int:
    """Return the number of items per shard: a fraction of a worker's slots.

    No slot then waits for the end of a large shard. A shard costs some 15 ms whatever its size.
    Items with few answers therefore form larger shards, as long as each worker has many shards.

    Args:
        slots: Number of items in flight in one worker process.
        n_answers: Number of answers of all items together.
        is_least: True returns the smallest useful size, however short the items. An early decision
            needs it, because it waits for each shard.
    """
    least = max(1, -(-slots // SHARDS_IN_FLIGHT), min(_WORTHWHILE, slots // 2))
    if is_least:
        return least
    of_short_ones = least * _USUAL_ANSWERS * n_items // max(1, n_answers)
    return max(least, min(of_short_ones, n_items // (max(1, n_workers) * SHARDS_IN_FLIGHT)))


def dealt_shards(items: Sequence[S], size: int, n_workers: int) -> list[tuple[S, ...]]:
    """Distribute items to workers one by one, then cut shards of `size`, one per worker in turn.

    The numbers of items of two workers differ by at most one. If complete shards were dealt, a
    worker with one shard more than the others would finish later by the length of a dialogue.
    """
    shards = [even_shards(items[worker::n_workers], size) for worker in range(n_workers)]
    return [own[number] for number in range(len(shards[0])) for own in shards if number < len(own)]


def even_shards(items: Iterable[S], size: int) -> list[tuple[S, ...]]:
    """Cut items into shards of `size`, in order. The last shard may be smaller."""
    every = tuple(items)
    return [every[i : i + size] for i in range(0, len(every), size)]
