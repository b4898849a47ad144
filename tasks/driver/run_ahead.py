"""Runs programs of finished episodes while other episodes are still being played.

It uses idle processors only: dialogues that wait for a model leave them free, dialogues that keep them busy go first. The stage
`execute` would reach the same verdicts, in the same shards under the same names, and finds them done. Nothing rests on it: the
stage decides whatever fails here or is not reached.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

from schemas.episode import Episode
from schemas.errors import SchemaMismatch, ServerUnavailable
from schemas.verdict import TestVerdict
from tasks.driver.execution import episode_groups, known_verdicts, shard_of, with_known_verdicts
from tasks.driver.fan_out import living_workers
from tasks.driver.idle_cores import IdleCores
from tasks.driver.resources import ClusterResources
from tasks.planning.plan import RunPlan
from tasks.worker.execute_shard import execute_shard
from tasks.worker.jobs import ConverseResult, RunContext

_LOOK_EVERY_S = 0.5
_SPARE, _SCARCE = 0.6, 0.2
"""Idle shares of the processors: above the first, one more shard may be under way; below the second, one less. With half of the
processors idle (dialogues at 200 ms a turn, two processors), programs would cost the dialogues a tenth of their pace."""


class RunAhead:
    """Takes in played shards and has their programs run, from a thread of its own.

    Args:
        context: context of the present try of `converse`.
        client: a Dask client. Its program shards go before shards that wait to be played.
        owed: ids of the episodes that the try plays. The stage `execute` decides shards with other episodes among them.
    """

    def __init__(
        self, plan: RunPlan, context: RunContext, client: Any, owed: Iterable[str]
    ) -> None:
        self._plan, self._context, self._client = plan, context, client
        self.most = len(living_workers(client)) * (
            context.programs + 1
        )  # one more than can run: none waits for the driver
        self._allowed = 0
        played_now = set(owed)
        groups = episode_groups(plan) if plan.runs_programs else []
        self._missing = {group: len(group) for group in groups if played_now.issuperset(group)}
        self._group_of = {episode_id: group for group in self._missing for episode_id in group}
        self._part_of: dict[str, str] = {}
        self._ready: list[tuple[str, ...]] = []
        self._read: dict[str, Episode] = {}
        self._under_way: list[Any] = []
        self._lock, self._wake, self._over = threading.Lock(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="parley-run-ahead", daemon=True)
        self.n_run = 0
        """Programs that were run."""

    def take(self, result: ConverseResult) -> None:
        """A shard was played."""
        with self._lock:
            for episode_id in result.finished:
                group = self._group_of.get(episode_id)
                if group is not None:
                    self._part_of[episode_id] = result.part
                    self._missing[group] -= 1
                    if not self._missing[group]:
                        self._ready.append(group)
        self._wake.set()

    def start(self) -> None:
        """From now on begin shards."""
        self._thread.start()

    def finish(self) -> None:
        """Begin no more, and wait for those under way."""
        self._end()
        self._under_way = [
            future for future in self._under_way if not self._is_over(future, wait=True)
        ]

    def abandon(self) -> None:
        """Begin no more, and give up those under way."""
        self._end()
        if self._under_way:
            with suppress(Exception):  # the cluster may have failed, which is told elsewhere
                self._client.cancel(self._under_way, force=True)

    def _end(self) -> None:
        self._over.set()
        self._wake.set()
        self._thread.join()

    def _go_on(self) -> None:
        idle, looked_at = IdleCores(), time.monotonic()
        while not self._over.is_set():
            self._wake.wait(_LOOK_EVERY_S)
            self._wake.clear()
            if time.monotonic() - looked_at >= _LOOK_EVERY_S:
                self._allowed, looked_at = self._adjusted(idle.since_last()), time.monotonic()
            try:
                self._begin_what_may_be()
            except (OSError, SchemaMismatch, ServerUnavailable):
                return  # the stage `execute` meets it again, and says so

    def _adjusted(self, idle: float) -> int:
        """How many shards may be under way, with that share of the processors idle. No more where none waits."""
        step = 1 if idle > _SPARE and self._ready else -1 if idle < _SCARCE else 0
        return min(max(self._allowed + step, 0), self.most)

    def _begin_what_may_be(self) -> None:
        self._under_way = [future for future in self._under_way if not self._is_over(future)]
        while len(self._under_way) < self._allowed and not self._over.is_set():
            with self._lock:
                if not self._ready:
                    return
                group = self._ready.pop(0)
            shard = shard_of(self._plan, self._context, map(self._episode, group))
            (shard,) = with_known_verdicts(self._context, self._known, [shard])
            future = self._resources.submit(execute_shard, shard, priority=1)
            future.add_done_callback(lambda _: self._wake.set())
            self._under_way.append(future)

    def _is_over(self, future: Any, *, wait: bool = False) -> bool:
        if not wait and not future.done():
            return False
        try:
            result = future.result()
        except Exception:  # noqa: BLE001 - whatever it was: the stage `execute` does it again, and says what happens then
            return True
        self.n_run += result.n_run
        if result.n_infra:
            self._over.set()  # the sandbox fails; its retries are that stage's
        return True

    def _episode(self, episode_id: str) -> Episode:
        """An episode from its part, which is read once for all its episodes."""
        if episode_id not in self._read:
            part = (
                self._plan.lake.folder("episodes", **self._plan.keys)
                / f"part-{self._part_of[episode_id]}.parquet"
            )
            for episode in self._plan.lake.read_part("episodes", Episode, part):
                self._read[episode.episode_id] = episode
        return self._read.pop(episode_id)

    @cached_property
    def _resources(self) -> ClusterResources:
        return ClusterResources(self._client)

    @cached_property
    def _known(self) -> Mapping[str, TestVerdict]:
        return known_verdicts(self._plan)


@contextmanager
def running_ahead(
    plan: RunPlan, context: RunContext, client: Any, owed: Iterable[str]
) -> Iterator[RunAhead]:
    """Run programs ahead while the block runs; at its end, programs that were begun are done."""
    ahead = RunAhead(plan, context, client, owed)
    ahead.start()
    try:
        yield ahead
    except BaseException:
        ahead.abandon()
        raise
    ahead.finish()
