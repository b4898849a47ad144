"""Base classes of stages and of the early start of their work, and the Prefect tasks that run them.

The driver cuts pending items into shards, and workers process them. An item that failed because of
a machine or service gets at most three attempts in a night.

The lake and the journal record what is done, and every task checks them first. Prefect's cache
could only repeat that, or contradict it after files were removed, because a cache hit does not
check that the files exist. See decision 0006.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cached_property
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.episode import Episode
from schemas.errors import InfraError, ParleyError
from schemas.run import EndpointProfile
from tasks.driver.fan_out import ClusterResources, closing_run, fan_out, living_workers
from tasks.planning.participants.models import join_profiles
from tasks.planning.plan import RunPlan
from tasks.storage.journaling.leases import shard_attempt
from tasks.worker.jobs import ShardResult

MAX_ATTEMPTS = 3
"""Maximum number of attempts at an item in one night after faults of machine or service."""
RETRY_DELAY_S = 2.0
OnResult = Callable[[ShardResult], None]


@dataclass
class StageResult:
    """Result of a stage over all its attempts."""

    model_calls: int = 0
    n_run: int = 0
    """Number of programs that were run."""
    error: str | None = None
    """Message of one of the faults that remain after the last attempt."""
    is_permanent: bool = False
    """True if another attempt cannot remove the remaining faults."""
    is_cut: bool = False
    """True if a budget cap stopped the stage. Finished work is stored."""
    profiles: dict[str, EndpointProfile] = field(default_factory=dict[str, EndpointProfile])
    """Map each role to the properties of its endpoint that the workers found."""

    def add(self, results: Sequence[ShardResult], *, is_lost: bool = False) -> None:
        """Add the results of an attempt. Faults of the previous attempt are dropped.

        Args:
            is_lost: True if a worker died with its shard.
        """
        faulty = [result for result in results if result.n_infra]
        for result in results:
            self.model_calls += result.model_calls
            self.n_run += result.n_run
            join_profiles(self.profiles, result.profiles)
        self.error = next(
            (r.error for r in results if r.error), "a worker process died" if is_lost else None
        )
        self.is_permanent = (
            bool(faulty) and not is_lost and all(result.permanent for result in faulty)
        )
        self.is_cut = any(result.n_cut for result in results)


ItemT = TypeVar("ItemT")
ShardT = TypeVar("ShardT")
ResultT = TypeVar("ResultT", bound=StageResult)


class Stage(ABC, Generic[ItemT, ShardT, ResultT]):
    """One step of a run, such as `execute`. A subclass defines its items, shards and tables.

    Args:
        context: Facts that all shards share.
        client: Dask client.
        result: Result of the stage so far.
    """

    name: ClassVar[str]
    asks_models = False
    """True if the stage sends requests to models.

    Such a stage waits before its next attempt. If no item of an attempt succeeded, there is no
    further attempt.
    """

    def __init__(self, plan: RunPlan, context: Any, client: Any, result: ResultT) -> None:
        self.plan, self.context, self.client, self.result = plan, context, client, result

    @staticmethod
    @abstractmethod
    def run_shard(shard: ShardT) -> ShardResult:
        """Process one shard, in a worker process."""

    @abstractmethod
    def pending(self) -> Sequence[ItemT]:
        """Return the items to process now."""

    @abstractmethod
    def shards(self, pending: Sequence[ItemT], n_workers: int) -> Sequence[ShardT]:
        """Cut pending items into shards."""

    @abstractmethod
    def keep(self) -> None:
        """Store the shards' results in the run's tables. Called once, after the last attempt."""

    def reach(self) -> None:
        """Prepare what the shards need, such as servers. Called once, if an item is pending."""

    @contextmanager
    def attempt(self, number: int, pending: Sequence[ItemT]) -> Iterator[None]:
        """Allow workers to take shards of this attempt while the block runs."""
        with shard_attempt(self.plan.home.tries(self.context.key), self.context.invocation):
            yield

    def dealing(self, shards: Sequence[ShardT], n_workers: int) -> dict[str, Any]:
        """Return the arguments of `fan_out` for these shards."""
        # One shard more than can run, so that no worker waits for the driver.
        return {"at_once": n_workers * (self.context.programs + 1)}

    def take(self, result: ShardResult) -> None:
        """Receive a shard's result when it arrives. The default does nothing."""


def run_stage(
    stage: Stage[ItemT, ShardT, ResultT], on_result: OnResult = lambda _: None
) -> ResultT:
    """Process the pending items of a stage, store the results, and return them."""
    if pending := stage.pending():
        stage.reach()
        with closing_run(stage.client, stage.context.key):
            _attempt(stage, pending, on_result)
    stage.keep()
    return stage.result


def _attempt(
    stage: Stage[ItemT, ShardT, Any], pending: Sequence[ItemT], on_result: OnResult
) -> None:
    def take(result: ShardResult) -> None:
        stage.take(result)
        on_result(result)

    for number in range(MAX_ATTEMPTS):
        with stage.attempt(number, pending):
            n_workers = len(living_workers(stage.client))
            shards = stage.shards(pending, n_workers)
            results, lost = fan_out(
                stage.client, stage.run_shard, shards, take, **stage.dealing(shards, n_workers)
            )
        stage.result.add(results, is_lost=bool(lost))
        is_whole = bool(results) and not lost
        if (
            stage.result.is_cut
            or (is_whole and _is_hopeless(stage, results))
            or not (pending := stage.pending())
        ):
            return
        # A dead worker is replaced at once, without a delay.
        if is_whole and stage.asks_models and number + 1 < MAX_ATTEMPTS:
            time.sleep(RETRY_DELAY_S * 2 ** (number + 1))


def _is_hopeless(stage: Stage[Any, Any, Any], results: Sequence[ShardResult]) -> bool:
    """Return True if another attempt is useless: no faults remain, or they would recur."""
    is_down = stage.asks_models and all(result.n_infra == result.n_items for result in results)
    return is_down or all(result.permanent for result in results if result.n_infra)


T = TypeVar("T")
RETRIES = 2
"""Number of retries of a Prefect task."""


def is_worth_retrying(task: Any, task_run: Any, state: Any) -> bool:
    """Return True if a failed task may succeed when run again.

    Faults of machine or service may pass. Wrong requests and failed checks do not.
    """
    error = state.result(raise_on_failure=False)
    return isinstance(error, InfraError) or not isinstance(error, ParleyError)


OPTIONS: dict[str, Any] = {
    "cache_policy": NO_CACHE,
    "retries": RETRIES,
    "retry_delay_seconds": 5,
    "retry_condition_fn": is_worth_retrying,
}
"""Arguments of `@task` for every Prefect task."""


def run_task(
    name: str, title: str, work: Callable[[], T], *, action: str = "", retries: int = RETRIES
) -> T:
    """Run a function as a Prefect task, and return its result.

    The function is a closure: Prefect searches the arguments of a task for states of other tasks,
    which takes longer than most tasks.

    Args:
        name: Name of the task.
        title: Title of the run, which the name of the task's run contains.
        work: Function to run.
        action: Start of the name of the task's run. Default: the task's name.
        retries: Number of retries after failures that may pass.
    """

    @task(
        name=name,
        task_run_name=lambda: f"{action or name} {title}".strip(),
        **{**OPTIONS, "retries": retries},
    )
    def run() -> T:
        return work()

    return run()


def run_stage_task(
    stage: Stage[ItemT, ShardT, ResultT], title: str, on_result: OnResult = lambda _: None
) -> ResultT:
    """Run a stage as a Prefect task, which is named after the stage and the run.

    Args:
        stage: Stage to run.
        title: Title of the run.
        on_result: Called with the result of each shard.
    """
    return run_task(stage.name, title, lambda: run_stage(stage, on_result))


_LOOK_EVERY_S = 0.5
_LEAVES_S = 10.0
"""Maximum seconds to wait for the thread to end after an error stopped the run."""


class Ahead(ABC):
    """Context manager that processes finished dialogues while others are played.

    The end of the block waits for all begun work. If an error ends the block, the work is
    cancelled. A failure changes no result: the stage later does all missing work, and reports its
    failures.

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
            # The cluster may have failed. Its failure is reported elsewhere.
            with suppress(Exception):
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
