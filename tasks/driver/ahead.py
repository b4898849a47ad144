"""Early start of a stage's work on finished dialogues, while other dialogues are still played.

A failure here changes no result: the stage later does all missing work, and reports its failures.
"""

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import cached_property
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

from schemas.episode import Episode
from tasks.driver.fan_out import ClusterResources
from tasks.driver.stage import StageResult
from tasks.planning.plan import RunPlan
from tasks.worker.jobs import ShardResult

_LOOK_EVERY_S = 0.5
_LEAVES_S = 10.0
"""Maximum seconds to wait for the thread to end after an error stopped the run."""


class Ahead(ABC):
    """Context manager that processes finished dialogues while others are played.

    The end of the block waits for all begun work. If an error ends the block, the work is
    cancelled.

    Args:
        client: Dask client. Workers run shards of this class before waiting shards of dialogues.
    """

    most = float("inf")
    """Maximum number of work items in flight."""

    def __init__(self, plan: RunPlan, client: Any) -> None:
        self.plan, self.client = plan, client
        self.result = StageResult()
        """Sum of the shards' results."""
        self._played: SimpleQueue[ShardResult] = SimpleQueue()
        self._waiting: deque[Any] = deque()
        self._under_way: list[Any] = []
        self._wake, self._is_over, self._is_given_up = (
            threading.Event(),
            threading.Event(),
            threading.Event(),
        )
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._go_on,), name="parley-ahead", daemon=True
        )

    def new_work(self, result: ShardResult) -> Sequence[Any]:
        """Return the work items of a finished shard of dialogues.

        Default: one item, the name of the lake part that holds the shard's episodes.
        """
        return [result.part] if result.finished else []

    @abstractmethod
    def begin(self, work: Any) -> Any:
        """Begin one work item. Return its future, or None if nothing was submitted."""

    def add(self, result: ShardResult) -> None:
        """Add the result of an early shard to `self.result`."""
        self.result.add([result])

    def take(self, result: ShardResult) -> None:
        """Receive the result of a finished shard of dialogues."""
        self._played.put(result)
        self._wake.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._is_given_up.set()
        self._is_over.set()
        self._wake.set()
        self._thread.join(None if error is None else _LEAVES_S)
        if error is None:
            for future in self._under_way:
                self._end(future)
        elif self._under_way:
            with suppress(
                Exception
            ):  # The cluster may have failed. Its failure is reported elsewhere.
                self.client.cancel(self._under_way, force=True)

    def submit(self, run_shard: Callable[[Any], ShardResult], shard: object) -> Any:
        """Submit a shard to the Dask workers and return its future."""
        return self._resources.submit(run_shard, shard, priority=1)

    @cached_property
    def _resources(self) -> ClusterResources:
        return ClusterResources(self.client)

    def episodes(self, part: str) -> list[Episode]:
        """Read the episodes of the Parquet part that a shard of dialogues wrote."""
        folder = self.plan.lake.folder("episodes", **self.plan.keys)
        return self.plan.lake.read_part("episodes", Episode, folder / f"part-{part}.parquet")

    def _go_on(self) -> None:
        with suppress(Exception):  # The stage meets any failure again and reports it.
            while not self._is_given_up.is_set():
                is_over = self._is_over.is_set()
                with suppress(Empty):
                    while True:
                        self._waiting += self.new_work(self._played.get_nowait())
                self._begin_waiting()
                if is_over:
                    return
                self._wake.wait(_LOOK_EVERY_S)
                self._wake.clear()

    def _begin_waiting(self) -> None:
        finished = [future for future in self._under_way if future.done()]
        self._under_way = [future for future in self._under_way if future not in finished]
        for future in finished:
            self._end(future)
        while self._waiting and len(self._under_way) < self.most and not self._is_given_up.is_set():
            future = self.begin(self._waiting.popleft())
            if future is not None:
                future.add_done_callback(lambda _: self._wake.set())
                self._under_way.append(future)

    def _end(self, future: Any) -> None:
        with suppress(Exception):  # The stage repeats failed work and reports its failure.
            self.add(future.result())
