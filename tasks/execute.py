"""Programs of a run's episodes: their shards, early runs beside dialogues, the stage `execute`.

Verdicts that earlier runs stored are reused.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from schemas.content_id import content_id
from schemas.episode import Episode
from schemas.errors import CorruptRows, SchemaMismatch
from schemas.lake.rows import PackedRows, from_arrow
from schemas.verdict import TestVerdict
from tasks.driver.fan_out import LazyShards, even_shards, living_workers
from tasks.planning.plan import RunPlan
from tasks.stage import Ahead, Stage, StageResult
from tasks.storage.parquet_store import replace_by_one
from tasks.worker.execute_shard import due_verdicts, execute_shard, test_runs
from tasks.worker.jobs import INFRA_SUFFIX, ExecuteItem, ExecuteShard, RunContext, ShardResult
from tasks.worker.program_book import LASTING

_FEWEST_EPISODES, _ROUNDS = 4, 16
"""Size of a shard: 16 rounds, but at least 4 episodes.

Small shards show progress and lose little if a worker is killed.
"""


def episode_groups(plan: RunPlan) -> list[tuple[str, ...]]:
    """Return the ids of the run's episodes by shard. The groups depend only on the plan."""
    rounds = max((due.rounds for due in plan.dues), default=1)
    return even_shards(
        plan.members.ids.to_pylist(), max(_FEWEST_EPISODES, _ROUNDS // max(1, rounds))
    )


class RunAhead(Ahead):
    """Execution of finished dialogues' programs at low priority, on processors that would idle.

    The shards and their names are those of the stage `execute`. The kernel prefers the dialogues.

    Args:
        context: Context of the current attempt of `converse`.
        played_now: Ids of the episodes that the attempt plays. Shards that also contain other
            episodes are left to the stage.
    """

    def __init__(
        self, plan: RunPlan, context: RunContext, client: Any, played_now: Iterable[str]
    ) -> None:
        super().__init__(plan, client)
        self._context, played_ids = context, set(played_now)
        groups = episode_groups(plan) if plan.runs_programs else []
        self._missing = {group: len(group) for group in groups if played_ids.issuperset(group)}
        self._group_of = {episode_id: group for group in self._missing for episode_id in group}
        self.shard_names: dict[str, str] = {}
        """Name of each begun shard by `group_digest`."""
        self._part_of: dict[str, str] = {}
        self._read: dict[str, Episode] = {}
        # One shard more than can run, so that no worker waits for the driver.
        self.most = len(living_workers(client)) * (context.programs + 1)

    def new_work(self, result: ShardResult) -> list[tuple[str, ...]]:
        """Return the groups whose last episode this shard finished."""
        complete: list[tuple[str, ...]] = []
        for episode_id in filter(self._group_of.__contains__, result.finished):
            group = self._group_of[episode_id]
            self._part_of[episode_id] = result.part
            self._missing[group] -= 1
            if not self._missing[group]:
                complete.append(group)
        return complete

    def begin(self, work: tuple[str, ...]) -> Any:
        episodes = tuple(map(self._episode, work))
        shard = shard_of(self.plan, self._context, episodes, self._known_verdicts)
        digest = group_digest((episode.episode_id, episode.attempt) for episode in episodes)
        self.shard_names[digest] = shard.name
        return self.submit(execute_shard, replace(shard, is_early=True))

    def add(self, result: ShardResult) -> None:
        super().add(result)
        if result.n_infra:  # The sandbox fails. The stage does the retries.
            self._is_given_up.set()

    def _episode(self, episode_id: str) -> Episode:
        if episode_id not in self._read:
            self._read |= {
                episode.episode_id: episode for episode in self.episodes(self._part_of[episode_id])
            }
        return self._read.pop(episode_id)

    @cached_property
    def _known_verdicts(self) -> Mapping[str, TestVerdict]:
        return known_verdicts(self.plan)


def existing_groups(plan: RunPlan, episode_ids: Sequence[str]) -> list[list[int]]:
    """Return the groups of `episode_groups` as positions in `episode_ids`. Omit empty groups."""
    at = {episode_id: place for place, episode_id in enumerate(episode_ids)}
    groups = ([at[name] for name in group if name in at] for group in episode_groups(plan))
    return [group for group in groups if group]


def group_digest(attempts: Iterable[tuple[str, int]]) -> str:
    """Return the digest of a group of finished episodes, from their ids and attempts."""
    return content_id(list(attempts))


def shard_of(
    plan: RunPlan,
    context: RunContext,
    episodes: Iterable[Episode],
    verdicts: Mapping[str, TestVerdict] = MappingProxyType({}),
    name: str = "",
) -> ExecuteShard:
    """Return the shard of these episodes, with those of `verdicts` that its programs need.

    Args:
        verdicts: Stored verdicts by id.
        name: Name of the shard, a digest of the verdicts to determine. Empty: it is computed.
    """
    items = tuple(item_of(plan, episode) for episode in episodes)
    # The verdict ids cost more than the rest of the shard.
    dues = [due_verdicts(context, item) for item in items] if verdicts or not name else []
    name = name or content_id(
        [(i.episode.episode_id, i.episode.attempt, due) for i, due in zip(items, dues, strict=True)]
    )
    keys = {key for due in dues for _, _, key in due}
    known = {key: verdicts[key] for key in keys if key is not None and key in verdicts}
    return ExecuteShard(context, name, items, known)


def item_of(plan: RunPlan, episode: Episode) -> ExecuteItem:
    """Return the item of a shard: an episode with its problem and dialog."""
    return ExecuteItem(episode, plan.problems[episode.problem_id], plan.dialogs[episode.row_digest])


def known_verdicts(plan: RunPlan) -> Mapping[str, TestVerdict]:
    """Return the stored verdicts of this model on this benchmark, from all runs, by id.

    Only lasting outcomes count (`LASTING`).
    """
    by_id: dict[str, TestVerdict] = {}
    for part in plan.lake.parts(
        "test_verdicts", benchmark=plan.spec.benchmark, model=plan.spec.label
    ):
        # The part was replaced meanwhile or is damaged, so its programs run again.
        with suppress(FileNotFoundError, SchemaMismatch, CorruptRows):
            rows = plan.lake.read_arrow("test_verdicts", [part])
            is_lasting = [outcome in LASTING for outcome in rows["outcome"].to_pylist()]
            verdicts = from_arrow(rows.filter(pa.array(is_lasting, pa.bool_())), TestVerdict)
            by_id |= {verdict.verdict_id: verdict for verdict in verdicts if verdict.verdict_id}
    return by_id


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
