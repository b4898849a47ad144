"""Stage `converse`: play the pending episodes of a run on Dask workers."""

import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from sandbox.workspace.interface import image_of
from schemas.episode import Episode, Step
from schemas.lake.rows import from_arrow
from schemas.lake.tables import TABLES
from schemas.run import EmbedderIdentity, ModelEndpoint, ModelIdentity
from tasks.decide import DecideAhead
from tasks.driver.fan_out import LazyShards, dealt_shards, shard_size
from tasks.execute import RunAhead
from tasks.language.access import ModelAccess
from tasks.planning.participants.models import (
    access_in_worker,
    concurrency_by_endpoint,
    endpoint_of,
)
from tasks.planning.plan import RunPlan
from tasks.stage import Stage, StageResult
from tasks.storage.files.pulled_images import PulledImages
from tasks.storage.journaling.dialogue_calls import Unfinished, read_unfinished
from tasks.storage.journaling.segments import remove_segments
from tasks.storage.parquet_store import merge_episodes
from tasks.storage.run_rows import WantedEpisode, WantedEpisodes
from tasks.worker.budget_meter import BudgetMeter
from tasks.worker.call_log import CallLog
from tasks.worker.converse_shard import converse_shard
from tasks.worker.jobs import ConverseShard, EpisodeJob, RunContext, ShardResult


@dataclass
class Conversed(StageResult):
    """Result of the stage. `n_run` counts programs within dialogues and early test runs."""

    n_pending: int = 0
    resumed_steps: Mapping[str, tuple[Step, ...]] = field(
        default_factory=dict[str, tuple[Step, ...]]
    )
    """Map each resumed episode to its stored steps, which are not requested again."""
    shard_names: dict[str, str] = field(default_factory=dict[str, str])
    """Names of the shards of programs that ran early. See `RunAhead.shard_names`."""


class ConverseStage(Stage[WantedEpisode, ConverseShard, Conversed]):
    """Stage `converse`. While dialogues are played, the programs of finished dialogues run.

    The programs run at low priority, or for an early decision. The journal is removed once
    Parquet holds all of it.

    Args:
        deciding: Decides the comparison with the baseline early. Dialogues begin in its order, and
            none begins after the decision.
        on_all_begun: Called when the workers have all dialogues of this run, so that dialogues of
            another run may begin.
    """

    name = "converse"
    asks_models = True
    run_shard = staticmethod(converse_shard)

    def __init__(
        self,
        plan: RunPlan,
        context: RunContext,
        client: Any,
        deciding: DecideAhead | None = None,
        on_all_begun: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(plan, context, client, Conversed())
        self._invocation = context.invocation
        self._deciding, self._on_all_begun = deciding, on_all_begun
        self._beside: RunAhead | DecideAhead | None = None

    def pending(self) -> WantedEpisodes:
        return self.plan.pending()

    @contextmanager
    def attempt(self, number: int, pending: Sequence[WantedEpisode]) -> Iterator[None]:
        plan, deciding, self._is_first = self.plan, self._deciding, number == 0
        expect_images(plan, pending)
        self.context = replace(self.context, invocation=f"{self._invocation}-{number}")
        ahead = deciding or RunAhead(
            plan, self.context, self.client, [w.episode_id for w in pending]
        )
        with (
            super().attempt(number, pending),
            ahead if isinstance(ahead, RunAhead) else ahead.deciding(self.context),
        ):
            self._beside = ahead
            yield
        if isinstance(ahead, RunAhead):
            self.result.shard_names |= ahead.shard_names
        self.result.n_run += ahead.result.n_run if isinstance(ahead, RunAhead) else ahead.n_run
        if deciding and deciding.is_decided:
            deciding.close(plan)
            self._deciding = None

    def shards(self, pending: Sequence[WantedEpisode], n_workers: int) -> "ConverseShards":
        assert isinstance(pending, WantedEpisodes)
        order = self._deciding.order if self._deciding else ()
        shards = ConverseShards(self.plan, self.context, pending, n_workers, order)
        if self._is_first:
            self.result.resumed_steps = {
                episode_id: unfinished_episode.steps
                for episode_id, unfinished_episode in shards.begun.items()
                if unfinished_episode.steps
            }
        return shards

    def dealing(self, shards: Sequence[ConverseShard], n_workers: int) -> dict[str, Any]:
        deciding, limit = self._deciding, self.context.shards_at_once
        # As many shards wait at the workers as are played, so that no worker waits for the driver.
        waiting = 1 if deciding else 2
        at_once = limit or waiting * -(-self.context.concurrency // len(shards[0].episodes))
        arguments = {
            "at_once": at_once,
            "in_turn": limit is None,
            "on_all_begun": self._on_all_begun,
        }
        return arguments | (
            {
                "on_begun": lambda shard: deciding.begin(job.problem_id for job in shard.episodes),
                "is_enough": deciding.is_enough,
                "is_ahead": deciding.is_behind,
                "is_probably_enough": deciding.is_probably_enough,
            }
            if deciding
            else {}
        )

    def take(self, result: ShardResult) -> None:
        if self._beside:
            self._beside.take(result)

    def keep(self) -> None:
        self.result.n_pending = len(self.plan.pending())
        if not self.result.n_pending:
            self.result.error, self.result.is_permanent = None, False
        settle(self.plan)


def expect_images(plan: RunPlan, pending: Sequence[WantedEpisode]) -> None:
    """Record which Docker images the pending episodes need. Parley removes these images last."""
    if not plan.images:
        return
    environments = {
        name: problem.repo.environment if problem.repo else ""
        for name, problem in plan.problems.items()
    }
    PulledImages(plan.home.images).expect(
        (image_of(environments[w.problem_id]), w.episode_id) for w in pending
    )


_NEW = Unfinished(0)
"""Stored part of an episode that no attempt has begun."""


class ConverseShards(LazyShards[ConverseShard]):
    """Small shards of the pending episodes. Each shard object is created when it is read.

    Begun episodes go first, then the others in order of decreasing length, so that no long dialogue
    remains alone at the end. All workers get the same number of episodes.

    Args:
        order: Problems in the order in which they must begin. Empty: the order described above.

    Attributes:
        begun: Stored part of each begun episode, by id.
    """

    def __init__(
        self,
        plan: RunPlan,
        context: RunContext,
        pending: WantedEpisodes,
        n_workers: int = 1,
        order: Sequence[str] = (),
    ) -> None:
        self._plan, self._context, self._pending = plan, context, pending
        ids = pending.ids.to_pylist()
        ended = list(from_arrow(plan.episodes.rows(pending.ids), Episode))
        self.begun = read_unfinished(plan.home.journal(plan.run_id), ids, ended)
        n_steps = [len(self.begun[name].steps) if name in self.begun else 0 for name in ids]
        ranks = _ranks_in_talks(plan, pending)
        turns = plan.dataset.facts["n_turns"].take(pending.rows["at"]).to_pylist()
        places = sorted(
            range(len(ids)), key=lambda at: (-n_steps[at], ranks.get(ids[at], 0), -turns[at])
        )
        if order:
            place = {problem: number for number, problem in enumerate(order)}
            problems = pending.rows["problem_id"].to_pylist()
            places.sort(key=lambda at: place.get(problems[at], 0))
        size = shard_size(
            context.concurrency, len(ids), plan.n_rounds(pending), n_workers, is_least=bool(order)
        )
        super().__init__(self._shard, dealt_shards(places, size, n_workers))

    def _shard(self, group: Sequence[int]) -> ConverseShard:
        return ConverseShard(self._context, tuple(map(self._job, self._pending.take(group))))

    def _job(self, episode: WantedEpisode) -> EpisodeJob:
        return EpisodeJob(
            episode_id=episode.episode_id,
            row_digest=episode.row_digest,
            problem_id=episode.problem_id,
            dialog_at=self._plan.dataset.row(episode.at),
            problem_at=self._plan.problems.place(episode.problem_id),
            sample=episode.sample,
            seed=episode.seed,
            begun=self.begun.get(episode.episode_id, _NEW),
        )


def _ranks_in_talks(plan: RunPlan, pending: WantedEpisodes) -> Mapping[str, int]:
    """Map each episode with a context to its rank among the episodes with this context.

    Episodes with rank 0 begin before those with rank 1. So agents read the contexts in parallel.
    """
    ranks: dict[str, int] = {}
    n_after: Counter[str | None] = Counter()
    for episode in pending if plan.spec.agent is not None else ():
        context_id = plan.dialog(episode).context_id
        if context_id is not None:
            ranks[episode.episode_id] = n_after[context_id]
            n_after[context_id] += 1
    return ranks


def settle(plan: RunPlan) -> None:
    """Write the list of the run's episodes, and remove a journal whose content Parquet holds.

    If nothing is pending, merge the run's parts into one. Remove unfinished files of killed
    workers.
    """
    plan.lake.remove_leftovers("episodes", **plan.keys)
    if not plan.pending():
        merge_episodes(plan.lake, **plan.keys)
    _write_members(plan)
    journal = plan.home.journal(plan.run_id)
    open_ids = set(plan.pending(plan.everything).ids.to_pylist())
    if not open_ids or not read_unfinished(journal, open_ids):
        remove_segments(journal)


def _write_members(plan: RunPlan) -> None:
    """Write the ids of the run's existing episodes to `run_episodes`, including failed ones."""
    existing = plan.members.among(plan.episodes.heads()["episode_id"]).rows
    schema = TABLES["run_episodes"].schema
    same = {"run_id": plan.run_id, "benchmark": plan.spec.benchmark, "model": plan.spec.label}
    columns = {name: pa.repeat(value, existing.num_rows) for name, value in same.items()}
    columns |= {
        name: existing[name].cast(schema.field(name).type)
        for name in ("episode_id", "problem_id", "sample")
    }
    rows = pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)
    plan.lake.write_arrow("run_episodes", rows, "members", **plan.keys)


def context_for(
    plan: RunPlan,
    *,
    workers: int,
    cores: int,
    served: Mapping[ModelIdentity, ModelEndpoint] = MappingProxyType({}),
    embedder: ModelAccess[EmbedderIdentity] | None = None,
    budget_meter: BudgetMeter | None = None,
    calls: CallLog | None = None,
) -> RunContext:
    """Return the facts that the run's shards share.

    The concurrency of each endpoint is divided by the number of worker processes.

    Args:
        workers: Number of worker processes, 1 or more.
        served: Endpoints of the models that this machine serves for the run.
        embedder: Access to the embedder; None if no participant of the dialogue needs vectors.
        budget_meter: Meter that enforces the budget caps of the invocation; None without caps.
        calls: Log of model calls, for metrics.
    """
    request, limits = plan.request, concurrency_by_endpoint(plan.models)
    players = [access for access in (plan.subject, plan.simulator) if access is not None]
    of_players = [limits[endpoint] for endpoint in {endpoint_of(access) for access in players}]
    least = min(of_players)
    subject, *simulator = (
        access_in_worker(plan.models, access, served, workers) for access in players
    )
    return RunContext(
        home=str(plan.home.path),
        lake=plan.home.lake_at,
        invocation=secrets.token_hex(8),
        spec=plan.spec,
        subject=subject,
        simulator=simulator[0] if simulator else None,
        concurrency=max(1, sum(of_players) // workers),
        environment=plan.environment,
        staged=plan.staged.digest,
        resources=tuple(sorted(request.benchmark.resources.items())),
        shards_at_once=least if least < workers else None,
        programs=max(1, cores // workers),
        fsync=request.fsync,
        embedder=embedder and embedder.shared_by(workers),
        budget_meter=budget_meter,
        calls=calls,
    )
