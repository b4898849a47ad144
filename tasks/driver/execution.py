"""Shards of a run's programs, and early runs of programs while dialogues are played.

Verdicts that earlier runs stored are reused.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from schemas.content_id import content_id
from schemas.episode import Episode
from schemas.errors import CorruptRows, SchemaMismatch
from schemas.lake.rows import from_arrow
from schemas.verdict import TestVerdict
from tasks.driver.fan_out import even_shards, living_workers
from tasks.driver.stage import Ahead
from tasks.planning.plan import RunPlan
from tasks.worker.execute_shard import due_verdicts, execute_shard
from tasks.worker.jobs import ExecuteItem, ExecuteShard, RunContext, ShardResult
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
        shard = shard_of(self.plan, self._context, map(self._episode, work))
        known = with_known_verdicts(self._context, self._known_verdicts, shard)
        return self.submit(execute_shard, replace(known, is_early=True))

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


def shard_of(plan: RunPlan, context: RunContext, episodes: Iterable[Episode]) -> ExecuteShard:
    """Return the shard of these episodes. Its name is a digest of the verdicts to determine."""
    items = tuple(item_of(plan, episode) for episode in episodes)
    return ExecuteShard(
        context,
        content_id(
            [(i.episode.episode_id, i.episode.attempt, due_verdicts(context, i)) for i in items]
        ),
        items,
    )


def item_of(plan: RunPlan, episode: Episode) -> ExecuteItem:
    """Return the item of a shard: an episode with its problem and dialog."""
    return ExecuteItem(episode, plan.problems[episode.problem_id], plan.dialogs[episode.row_digest])


def with_known_verdicts(
    context: RunContext, verdicts: Mapping[str, TestVerdict], shard: ExecuteShard
) -> ExecuteShard:
    """Return the shard with those of `verdicts` that its programs need."""
    if not verdicts:
        return shard
    keys = {key for item in shard.items for _, _, key in due_verdicts(context, item)}
    return replace(
        shard, known={key: verdicts[key] for key in keys if key is not None and key in verdicts}
    )


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
