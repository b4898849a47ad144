"""Puts a run's programs into shards, and finds the ones that earlier runs have paid for."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from schemas.content_id import content_id
from schemas.episode import Episode
from schemas.errors import CorruptRows, SchemaMismatch
from schemas.lake.rows import from_arrow
from schemas.verdict import TestVerdict
from tasks.driver.fan_out import even_shards
from tasks.planning.plan import RunPlan
from tasks.worker.execute_shard import due_verdicts
from tasks.worker.jobs import ExecuteItem, ExecuteShard, RunContext
from tasks.worker.program_book import LASTING

_FEWEST_EPISODES, _ROUNDS = 4, 16
"""To a shard: 16 rounds, or 4 episodes if they have more. So progress shows, and a kill costs little."""


def episode_groups(plan: RunPlan) -> list[tuple[str, ...]]:
    """Ids of the run's episodes, shard by shard. The order in which they were finished changes nothing."""
    rounds = max((due.rounds for due in plan.dues), default=1)
    return even_shards(
        plan.members.ids.to_pylist(), max(_FEWEST_EPISODES, _ROUNDS // max(1, rounds))
    )


def execute_shards(
    plan: RunPlan, context: RunContext, episodes: Sequence[Episode]
) -> list[ExecuteShard]:
    """Shards of all existing episodes."""
    by_id = {episode.episode_id: episode for episode in episodes}
    groups = ([by_id[name] for name in group if name in by_id] for group in episode_groups(plan))
    return [shard_of(plan, context, group) for group in groups if group]


def shard_of(plan: RunPlan, context: RunContext, episodes: Iterable[Episode]) -> ExecuteShard:
    """One shard; its name is a digest of the verdicts that it will decide."""
    items = tuple(item_of(plan, episode) for episode in episodes)
    return ExecuteShard(
        context,
        content_id(
            [(i.episode.episode_id, i.episode.attempt, due_verdicts(context, i)) for i in items]
        ),
        items,
    )


def item_of(plan: RunPlan, episode: Episode) -> ExecuteItem:
    """An episode with the parts of its programs."""
    return ExecuteItem(episode, plan.problems[episode.problem_id], plan.dialogs[episode.row_digest])


def with_known_verdicts(
    context: RunContext, known: Mapping[str, TestVerdict], shards: Sequence[ExecuteShard]
) -> list[ExecuteShard]:
    """Return the shards, each with the known verdicts of its programs."""
    if not known:
        return list(shards)
    wanted = (
        {key for item in shard.items for _, _, key in due_verdicts(context, item) if key in known}
        for shard in shards
    )
    return [
        replace(shard, known={key: known[key] for key in keys if key is not None})
        for shard, keys in zip(shards, wanted, strict=True)
    ]


def known_verdicts(plan: RunPlan) -> Mapping[str, TestVerdict]:
    """Return lasting verdicts of the same model on the same benchmark, from all runs, by id."""
    known: dict[str, TestVerdict] = {}
    for part in plan.lake.parts(
        "test_verdicts", benchmark=plan.spec.benchmark, model=plan.spec.label
    ):
        with suppress(
            FileNotFoundError, SchemaMismatch, CorruptRows
        ):  # replaced meanwhile, or damaged: run again
            rows = plan.lake.read_arrow("test_verdicts", [part])
            is_lasting = [outcome in LASTING for outcome in rows["outcome"].to_pylist()]
            verdicts = from_arrow(rows.filter(pa.array(is_lasting, pa.bool_())), TestVerdict)
            known |= {verdict.verdict_id: verdict for verdict in verdicts if verdict.verdict_id}
    return known
