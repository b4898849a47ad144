"""Stage `execute`: run the programs of a run's episodes in the sandbox, on Dask workers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any

from schemas.content_id import content_id
from schemas.episode import Episode
from schemas.lake.rows import PackedRows
from tasks.driver.execution import (
    existing_groups,
    group_digest,
    item_of,
    known_verdicts,
    shard_of,
)
from tasks.driver.fan_out import LazyShards, even_shards
from tasks.driver.stage import Stage, StageResult
from tasks.planning.plan import RunPlan
from tasks.storage.parquet_store import replace_by_one
from tasks.worker.execute_shard import execute_shard, test_runs
from tasks.worker.jobs import INFRA_SUFFIX, ExecuteShard, RunContext

_GROUPS_AT_ONCE = 64
"""Number of groups whose episodes are in memory together."""


class ExecuteStage(Stage[str, ExecuteShard, StageResult]):
    """Stage `execute`. Its pending items are the names of shards without a finished part.

    Stored verdicts of an equal environment are reused.

    Args:
        shard_names: Names of shards by `group_digest`, as far as they are known.
    """

    name = "execute"
    run_shard = staticmethod(execute_shard)

    def __init__(
        self,
        plan: RunPlan,
        context: RunContext,
        client: Any,
        episodes: PackedRows[Episode],
        shard_names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(plan, context, client, StageResult())
        self._episodes = episodes
        self._groups: dict[str, Sequence[int]] = {}
        """Map the name of each shard to the positions of its episodes."""
        columns = episodes.table(["episode_id", "attempt"])
        attempts = list(
            zip(columns["episode_id"].to_pylist(), columns["attempt"].to_pylist(), strict=True)
        )
        unnamed: list[Sequence[int]] = []
        for group in existing_groups(plan, [episode_id for episode_id, _ in attempts]):
            name = shard_names.get(group_digest(attempts[at] for at in group))
            if name is None:
                unnamed.append(group)
            else:
                self._groups[name] = group
        for groups in even_shards(unnamed, _GROUPS_AT_ONCE):
            rows = iter(episodes.take([at for group in groups for at in group]))
            for group in groups:
                self._groups[shard_of(plan, context, islice(rows, len(group))).name] = group
        self._whole = content_id(sorted(self._groups))
        """Name of the part into which the parts of all shards are merged."""

    def pending(self) -> list[str]:
        finished = self._finished()
        if self._whole in finished:
            return []
        return [name for name in self._groups if name not in finished]

    def shards(self, pending: Sequence[str], n_workers: int) -> Sequence[ExecuteShard]:
        verdicts = known_verdicts(self.plan)

        def shard(name: str) -> ExecuteShard:
            episodes = self._episodes.take(self._groups[name])
            return shard_of(self.plan, self.context, episodes, verdicts, name)

        return LazyShards(shard, pending)

    def keep(self) -> None:
        lake, keys, finished = self.plan.lake, self.plan.keys, self._finished()
        if self._whole in finished:
            lake.keep_only("test_verdicts", (self._whole,), **keys)
            return
        lake.keep_only(
            "test_verdicts",
            [name if name in finished else name + INFRA_SUFFIX for name in self._groups],
            **keys,
        )
        if len(self._groups) > 1 and finished.issuperset(self._groups):
            parts = lake.parts("test_verdicts", **keys)
            replace_by_one(
                lake,
                "test_verdicts",
                lake.read_arrow("test_verdicts", parts),
                self._whole,
                parts,
                **keys,
            )

    def _finished(self) -> set[str]:
        lake = self.plan.lake
        parts = [
            part
            for part in lake.parts("test_verdicts", **self.plan.keys)
            if not part.stem.endswith(INFRA_SUFFIX)
        ]
        return {
            part.stem.removeprefix("part-")
            for part in parts
            if lake.is_whole("test_verdicts", part)
        }


@dataclass(frozen=True)
class Expected:
    """Facts about a run's answers, known before their programs run."""

    verdicts: frozenset[tuple[str, int, str]] = frozenset()
    """(episode, turn, instruction) of every required verdict."""
    n_unreadable: int = 0
    """Number of answers in which no program was found."""


def expected_verdicts(context: RunContext, plan: RunPlan, episodes: Sequence[Episode]) -> Expected:
    """Return the required verdicts, and the number of answers without a program."""
    verdicts, unreadable = set[tuple[str, int, str]](), set[tuple[str, int]]()
    for episode in episodes:
        for test in test_runs(context, item_of(plan, episode)):
            verdicts.update((episode.episode_id, test.turn, name) for name, _ in test.rows)
            if test.code is not None and not test.is_readable:
                unreadable.add((episode.episode_id, test.turn))
    return Expected(frozenset(verdicts), len(unreadable))
