"""A stage of a run: what is pending is cut into shards, workers do them, and what they left is kept. At most three attempts."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from schemas.endpoint_profile import EndpointProfile
from tasks.driver.fan_out import closing_run, fan_out, living_workers
from tasks.planning.participants.found_profiles import join_profiles
from tasks.planning.plan import RunPlan
from tasks.storage.journaling.tries import shard_try
from tasks.worker.jobs import ShardResult

MAX_ATTEMPTS = 3
"""Attempts at an item in one night, where faults of machine or service end it."""
RETRY_DELAY_S = 2.0
OnResult = Callable[[ShardResult], None]


@dataclass
class StageResult:
    """What a stage came to, in all its attempts."""

    model_calls: int = 0
    n_run: int = 0
    """Programs that were run."""
    error: str | None = None
    """An example of the faults that are left."""
    is_permanent: bool = False
    """Asking again cannot help against the faults that are left."""
    is_cut: bool = False
    """A cap of the budget stopped it. Finished work is kept."""
    profiles: dict[str, EndpointProfile] = field(default_factory=dict[str, EndpointProfile])
    """Role -> what the workers found out about its endpoint."""

    def add(self, results: Sequence[ShardResult], *, is_lost: bool = False) -> None:
        """Add an attempt's results. Its faults replace those of the attempt before.

        Args:
            is_lost: a worker died with its shard.
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
    """One step of a run. A subclass says what is pending of it, how that is cut into shards, and what is kept.

    Args:
        context: facts that all shards share.
        client: a Dask client.
        result: what the stage came to so far.
    """

    asks_models = False
    """After faults of the models' service it waits before the next attempt. None follows where no item got through."""

    def __init__(self, plan: RunPlan, context: Any, client: Any, result: ResultT) -> None:
        self.plan, self.context, self.client, self.result = plan, context, client, result

    @staticmethod
    @abstractmethod
    def run_shard(shard: ShardT) -> ShardResult:
        """Do one shard, in a worker process."""

    @abstractmethod
    def pending(self) -> Sequence[ItemT]:
        """Find what is to be done now."""

    @abstractmethod
    def shards(self, pending: Sequence[ItemT], n_workers: int) -> Sequence[ShardT]:
        """Cut pending items into shards."""

    @abstractmethod
    def keep(self) -> None:
        """Write to the run's tables what the shards have left. Called once, after the last attempt."""

    def reach(self) -> None:
        """Make ready what the shards need. Called once, where something is pending."""

    @contextmanager
    def attempt(self, number: int, pending: Sequence[ItemT]) -> Iterator[None]:
        """Let workers take shards while the block runs."""
        with shard_try(self.plan.home.tries(self.context.key), self.context.invocation):
            yield

    def dealing(self, shards: Sequence[ShardT], n_workers: int) -> dict[str, Any]:
        """Return how the shards are dealt: see `fan_out`."""
        return {
            "at_once": n_workers * (self.context.programs + 1)
        }  # one more than can run: none waits for the driver

    def take(self, result: ShardResult) -> None:
        """Take note of a shard's result as it comes."""


def run_stage(
    stage: Stage[ItemT, ShardT, ResultT], on_result: OnResult = lambda _: None
) -> ResultT:
    """Do what is pending of a stage, and keep it. Return what it came to."""
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
        if (
            is_whole and stage.asks_models and number + 1 < MAX_ATTEMPTS
        ):  # a dead worker is replaced at once
            time.sleep(RETRY_DELAY_S * 2 ** (number + 1))


def _is_hopeless(stage: Stage[Any, Any, Any], results: Sequence[ShardResult]) -> bool:
    """Tell whether another attempt would find nothing to do, or the same faults."""
    is_down = stage.asks_models and all(result.n_infra == result.n_items for result in results)
    return is_down or all(result.permanent for result in results if result.n_infra)
