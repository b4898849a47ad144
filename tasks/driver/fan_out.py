"""Spreads many shards over Dask workers; yields results as they come."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, overload

from schemas.errors import ServerUnavailable
from tasks.driver.resources import ClusterResources
from tasks.driver.signals import heed_signals
from tasks.storage.journaling.tries import ShardTaken
from tasks.worker.process import close_run

S = TypeVar("S")
R = TypeVar("R")
T = TypeVar("T")
REPLACED_S = 30.0
"""Time for a new worker in a dead one's place; its start takes some 3 s on an idle machine."""
SHARDS_IN_FLIGHT = 8
"""Shards whose items are under way in one worker process. Few enough, since each costs some 15 ms there and as much in the
driver, which reads its part again; many enough, so that the others are at work while one comes to its end."""
_WORTHWHILE = 16
"""Items that make a shard worth its cost. A worker with fewer slots than twice as many has two shards under way."""
_USUAL_ANSWERS = 6
"""Of an item for which shards have their usual size."""
_HEED_EVERY_S = 0.2


class LazyShards(Sequence[S]):
    """Shards, each made of its item when it is read. Only shards in flight are in memory.

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
    """Addresses of the client's workers, one or more. Where all have died at once it waits for the first new one.

    Asks the scheduler: the client's own refresh empties `scheduler_info` every two seconds.

    Raises:
        ServerUnavailable: there was none for `limit_s`.
    """
    deadline = time.monotonic() + limit_s
    while not (found := client.nthreads()):
        if time.monotonic() > deadline:
            raise ServerUnavailable(
                f"the Dask cluster has had no worker for {limit_s:g} s. Start one (`dask worker`) or unset PARLEY_DASK_ADDRESS; "
                "where it is this machine's own cluster, look for a lack of memory. The same command typed again goes on"
            )
        heed_signals()
        time.sleep(0.1)
    return tuple(sorted(found))


@contextmanager
def closing_run(client: Any, run_id: str) -> Iterator[None]:
    """Let the workers let go of a run at the block's end. Not where a signal ends it: they may be dead, or end soon."""
    try:
        yield
    except Exception:  # whatever ended the block: what the workers hold open is let go of
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
    on_all_begun: Callable[[], None] = lambda: None,
    is_enough: Callable[[], bool] = lambda: False,
    is_ahead: Callable[[], bool] = lambda: False,
) -> tuple[list[R], list[S]]:
    """Run `function` on each shard, on the client's workers, in the order of submission.

    Args:
        at_once: most shards under way together, at each worker where they go `in_turn`; None leaves it to the workers' threads,
            which other runs' shards then wait for.
        in_turn: the shards were dealt by `dealt_shards`: give each to its worker, or to another one if its worker has died.
        on_all_begun: called once, when no shard waits here any more.
        is_enough: tells that no shard needs to be begun any more. Shards under way end, and count.
        is_ahead: tells that no shard may be begun for now, since what came is still looked at.

    Returns:
        Results in the order they came, and the shards whose worker died. Their journaled turns are kept, the others are pending.

    Raises:
        ServerUnavailable: the cluster itself is gone.
        Exception: a shard's own. The other shards are cancelled first; their finished work stays.
    """
    from distributed.scheduler import KilledWorker

    resources = ClusterResources(client)
    hands = _Hands(
        shards,
        resources.able(living_workers(client), shards[0]) if in_turn and shards else (),
        at_once,
    )
    futures: dict[Any, tuple[int, S]] = {}
    arrived: SimpleQueue[Any] = SimpleQueue()

    def submit() -> None:
        if is_enough():
            hands.empty()
        if is_ahead():
            return
        for number, shard, place in hands.next():
            future = resources.submit(function, shard, priority=-number, **place)
            futures[future] = number, shard
            future.add_done_callback(arrived.put)

    results: list[R] = []
    lost: list[S] = []
    is_told = False
    try:
        submit()
        while futures or not hands.are_empty:
            heed_signals()
            submit()
            if hands.are_empty and not is_told:
                is_told = True
                on_all_begun()
            try:
                future = arrived.get(timeout=_HEED_EVERY_S)
            except Empty:
                continue
            number, shard = futures.pop(
                future
            )  # Dask's scheduler, in this process, holds a shard as long as its future
            hands.returned(number)
            submit()
            try:
                result = future.result()
            except (KilledWorker, ShardTaken):
                lost.append(shard)
                continue
            results.append(result)
            on_result(result)
    except (OSError, TimeoutError) as error:
        if client.status != "running":
            raise ServerUnavailable(
                f"the Dask cluster stopped answering ({error}). Type the same command again: it goes on"
            ) from error
        raise
    finally:
        client.cancel([future for future in futures if not future.done()], force=True)
    return results, lost


class _Hands:
    """Numbers of shards that are not begun yet, by the worker they are for: as many for each as it may have under way."""

    def __init__(self, shards: Sequence[Any], workers: Sequence[str], at_once: int | None) -> None:
        self._shards, self._workers = shards, workers
        self._n_hands = max(1, len(workers))
        self._waiting = [
            deque(range(hand, len(shards), self._n_hands)) for hand in range(self._n_hands)
        ]
        self._free = [len(shards) if at_once is None else at_once] * self._n_hands

    @property
    def are_empty(self) -> bool:
        return not any(self._waiting)

    def empty(self) -> None:
        for waiting in self._waiting:
            waiting.clear()

    def returned(self, number: int) -> None:
        self._free[number % self._n_hands] += 1

    def next(self) -> Iterator[tuple[int, Any, dict[str, Any]]]:
        """What may be begun: number, shard and place. One of each worker in turn."""
        while ready := [
            hand for hand in range(self._n_hands) if self._waiting[hand] and self._free[hand]
        ]:
            for hand in ready:
                self._free[hand] -= 1
                number = self._waiting[hand].popleft()
                yield number, self._shards[number], self._place(hand)

    def _place(self, hand: int) -> dict[str, Any]:
        return (
            {"workers": [self._workers[hand]], "allow_other_workers": True} if self._workers else {}
        )


def shard_size(
    slots: int, n_items: int, n_answers: int, n_workers: int, *, is_least: bool = False
) -> int:
    """Items of a shard: a part of a worker's slots, so that none waits for the end of a large one.

    Of items that owe few answers a shard has more, as long as each worker has many shards: a shard costs some 15 ms whatever
    it holds.

    Args:
        slots: items under way in one worker process.
        n_answers: that all items owe together.
        is_least: take the least size that is worth its cost, however short the items: a decision waits for each shard.
    """
    least = max(1, -(-slots // SHARDS_IN_FLIGHT), min(_WORTHWHILE, slots // 2))
    if is_least:
        return least
    of_short_ones = least * _USUAL_ANSWERS * n_items // max(1, n_answers)
    return max(least, min(of_short_ones, n_items // (max(1, n_workers) * SHARDS_IN_FLIGHT)))


def dealt_shards(items: Sequence[S], size: int, n_workers: int) -> list[tuple[S, ...]]:
    """Deal items to workers like cards, so that each gets as many; then cut shards of `size`, one of each worker in turn.

    One shard more would keep a worker busy for a dialogue's length after all others have ended.
    """
    hands = [even_shards(items[worker::n_workers], size) for worker in range(n_workers)]
    return [hand[number] for number in range(len(hands[0])) for hand in hands if number < len(hand)]


def even_shards(items: Iterable[S], size: int) -> list[tuple[S, ...]]:
    """Items in their order, `size` to a shard."""
    every = tuple(items)
    return [every[i : i + size] for i in range(0, len(every), size)]
