"""Prefect task: play the owed episodes of a run on Dask workers."""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, overload

import pyarrow as pa
from prefect import task

from sandbox.workspace.interface import image_of
from schemas.endpoint_profile import EndpointProfile
from schemas.episode import Episode, Step
from schemas.lake.rows import from_arrow
from schemas.lake.tables import TABLES
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.cache_policy import OPTIONS
from tasks.driver.decide_ahead import DecideAhead
from tasks.driver.fan_out import closing_run, dealt_shards, fan_out, living_workers, shard_size
from tasks.driver.run_ahead import RunAhead, running_ahead
from tasks.language.embedding import EmbedderAccess
from tasks.planning.participants.concurrency import concurrency_by_endpoint, endpoint_of, place_of
from tasks.planning.participants.found_profiles import join_profiles
from tasks.planning.plan import RunPlan
from tasks.storage.files.pulled_images import PulledImages
from tasks.storage.journaling.journal import Unfinished, read_journal
from tasks.storage.journaling.merging import merge_episodes
from tasks.storage.journaling.segments import remove_segments
from tasks.storage.journaling.tries import shard_try
from tasks.storage.owed import unfinished
from tasks.storage.wanted import WantedEpisode, WantedEpisodes
from tasks.worker.call_log import CallLog
from tasks.worker.converse_shard import converse_shard
from tasks.worker.jobs import ConverseResult, ConverseShard, EpisodeJob, RunContext
from tasks.worker.purse import Purse

MAX_ATTEMPTS = 3
"""Attempts at an episode in one night, where faults of machine or service end it."""
_RETRY_DELAY_S = 2.0


@dataclass
class Conversed:
    """The stage's results. `error` is one example of the faults that are left."""

    model_calls: int = 0
    n_run: int = 0
    """Programs that were run within the dialogues and beside them."""
    n_owed: int = 0
    error: str | None = None
    is_permanent: bool = False
    """Asking again cannot help against the faults that are left."""
    kept: Mapping[str, tuple[Step, ...]] = field(default_factory=dict[str, tuple[Step, ...]])
    """Episode that was taken up again -> its kept steps, which were not asked for again."""
    is_cut: bool = False
    """A cap of the budget stopped it."""
    profiles: dict[str, EndpointProfile] = field(default_factory=dict[str, EndpointProfile])
    """Role -> what the workers found out about its endpoint."""


@task(name="converse", task_run_name="converse {title}", **OPTIONS)
def converse(
    plan: RunPlan,
    context: RunContext,
    client: Any,
    title: str,
    on_result: Callable[[ConverseResult], None] = lambda _: None,
    on_all_begun: Callable[[], None] = lambda: None,
    deciding: DecideAhead | None = None,
) -> Conversed:
    """Play the owed episodes, each at most three times where infra ends it. Remove the journal once Parquet holds all of it.

    A try that finishes no episode is the last: its endpoint is down, and the same command goes on when it is back.

    Args:
        on_all_begun: called when the workers have all that there is to play: another run's dialogues may begin beside them.
        deciding: decides the run's comparison meanwhile. Dialogues are then begun in its order, and none once it is decided.
    """
    done, lost = Conversed(), []
    with closing_run(client, plan.run_id):
        for attempt in range(MAX_ATTEMPTS):
            owed = plan.owed()
            if not owed:
                break
            if (
                attempt and not lost
            ):  # a dead worker is replaced at once; a service in trouble needs a while
                time.sleep(_RETRY_DELAY_S * 2**attempt)
            expect_images(plan, owed)
            tried = replace(context, invocation=f"{context.invocation}-{attempt}")
            n_workers = len(living_workers(client))
            size = _shard_size(plan, tried, owed, n_workers, is_least=deciding is not None)
            shards = ConverseShards(
                plan, tried, owed, n_workers, deciding.order if deciding else ()
            )
            if not attempt:
                done.kept = {
                    episode_id: one.steps for episode_id, one in shards.begun.items() if one.steps
                }
            with (
                shard_try(plan.home.tries(plan.run_id), tried.invocation),
                _beside(plan, tried, client, owed, deciding) as ahead,
            ):

                def played(result: ConverseResult, ahead: RunAhead | DecideAhead = ahead) -> None:
                    ahead.take(result)
                    on_result(result)

                limit = context.shards_at_once
                waiting = 1 if deciding else 2
                results, lost = fan_out(
                    client,
                    converse_shard,
                    shards,
                    played,
                    at_once=limit
                    or waiting
                    * -(
                        -context.concurrency // size
                    ),  # as many wait there as are played: none waits for us
                    in_turn=limit is None,
                    on_all_begun=on_all_begun,
                    is_enough=deciding.is_enough if deciding else lambda: False,
                    is_ahead=deciding.is_behind if deciding else lambda: False,
                )
            done.model_calls += sum(result.model_calls for result in results)
            for result in results:
                join_profiles(done.profiles, result.profiles)
            done.n_run += sum(result.n_run for result in results) + ahead.n_run
            done.is_cut = any(result.n_cut for result in results)
            done.error = next(
                (r.error for r in results if r.error), "a worker process died" if lost else None
            )
            is_stuck = not lost and all(result.n_infra == result.n_episodes for result in results)
            is_pointless = not lost and all(
                result.permanent for result in results if result.n_infra
            )
            done.is_permanent = is_pointless and any(result.n_infra for result in results)
            if deciding and deciding.is_decided:
                deciding.close(plan)
                deciding = None
                if not results:
                    continue
            if is_stuck or is_pointless or done.is_cut:
                break
    done.n_owed = len(plan.owed())
    if not done.n_owed:
        done.error, done.is_permanent = None, False
    settle(plan)
    return done


def expect_images(plan: RunPlan, owed: WantedEpisodes) -> None:
    """Note which Docker images the pending episodes need, so that those are the last to be removed."""
    if not plan.images:
        return
    environments = {
        name: problem.repo.environment if problem.repo else ""
        for name, problem in plan.problems.items()
    }
    PulledImages(plan.home.images).expect(
        (image_of(environments[w.problem_id]), w.episode_id) for w in owed
    )


@contextmanager
def _beside(
    plan: RunPlan,
    context: RunContext,
    client: Any,
    owed: WantedEpisodes,
    deciding: DecideAhead | None,
) -> Iterator[RunAhead | DecideAhead]:
    """Run programs beside the dialogues: for a decision where there is one to reach, else on idle processors."""
    if deciding is None:
        with running_ahead(plan, context, client, owed.ids.to_pylist()) as ahead:
            yield ahead
    else:
        with deciding.deciding(context):
            yield deciding


class ConverseShards(Sequence[ConverseShard]):
    """Shards of the owed episodes, each made when it is read: until then it is a list of places.

    Begun episodes go first, then the others, the longest dialogues first, so that none of them is left alone at the end. In small
    shards, as many episodes for each worker.

    Args:
        order: problems in the order in which they must be begun instead.

    Attributes:
        begun: what is kept of each begun episode, by id.
    """

    def __init__(
        self,
        plan: RunPlan,
        context: RunContext,
        owed: WantedEpisodes,
        n_workers: int = 1,
        order: Sequence[str] = (),
    ) -> None:
        self._plan, self._context, self._owed = plan, context, owed
        ids = owed.ids.to_pylist()
        stored = {e.episode_id: e for e in from_arrow(plan.episodes.rows(owed.ids), Episode)}
        self.begun = unfinished(ids, read_journal(plan.home.journal(plan.run_id), ids), stored)
        n_steps = [len(self.begun[name].steps) if name in self.begun else 0 for name in ids]
        ranks = _ranks_in_talks(plan, owed)
        turns = plan.dataset.facts["n_turns"].take(owed.rows["at"]).to_pylist()
        places = sorted(
            range(len(ids)), key=lambda at: (-n_steps[at], ranks.get(ids[at], 0), -turns[at])
        )
        if order:
            place, problems = (
                {problem: number for number, problem in enumerate(order)},
                owed.rows["problem_id"].to_pylist(),
            )
            places.sort(key=lambda at: place.get(problems[at], 0))
        size = _shard_size(plan, context, owed, n_workers, is_least=bool(order))
        self._groups = dealt_shards(places, size, n_workers)

    def __len__(self) -> int:
        return len(self._groups)

    @overload
    def __getitem__(self, at: int) -> ConverseShard: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[ConverseShard, ...]: ...
    def __getitem__(self, at: int | slice) -> ConverseShard | tuple[ConverseShard, ...]:
        if isinstance(at, slice):
            return tuple(self._shard(group) for group in self._groups[at])
        return self._shard(self._groups[at])

    def _shard(self, group: Sequence[int]) -> ConverseShard:
        return ConverseShard(self._context, tuple(map(self._job, self._owed.take(group))))

    def _job(self, episode: WantedEpisode) -> EpisodeJob:
        begun = self.begun.get(episode.episode_id, Unfinished(0))
        return EpisodeJob(
            episode_id=episode.episode_id,
            row_digest=episode.row_digest,
            problem_id=episode.problem_id,
            dialog_at=self._plan.dataset.row(episode.at),
            problem_at=self._plan.problems.place(episode.problem_id),
            sample=episode.sample,
            seed=episode.seed,
            attempt=begun.attempt + 1,
            steps=begun.steps,
            answers=tuple((key, answer) for _, key, answer in begun.answers),
        )


def _ranks_in_talks(plan: RunPlan, owed: WantedEpisodes) -> Mapping[str, int]:
    """Return episode id -> its place among the episodes after the same talk, so that an agent takes all talks in side by side."""
    found: dict[str, int] = {}
    n_after: Counter[str | None] = Counter()
    for episode in owed if plan.spec.agent is not None else ():
        context_id = plan.dialog(episode).context_id
        if context_id is not None:
            found[episode.episode_id] = n_after[context_id]
            n_after[context_id] += 1
    return found


def _shard_size(
    plan: RunPlan,
    context: RunContext,
    owed: WantedEpisodes,
    n_workers: int,
    *,
    is_least: bool = False,
) -> int:
    n_answers = plan.n_rounds(owed)
    return shard_size(context.concurrency, len(owed), n_answers, n_workers, is_least=is_least)


def settle(plan: RunPlan) -> None:
    """Keep the played episodes: write the run's members to the lake, and remove a journal whose content Parquet holds.

    Where nothing is owed any more, merge the run's parts into one. Remove half-written files of killed workers.
    """
    plan.lake.remove_leftovers("episodes", **plan.keys)
    if not plan.owed():
        merge_episodes(plan.lake, **plan.keys)
    _write_members(plan)
    journal = plan.home.journal(plan.run_id)
    open_ids = plan.unfinished_ids()
    if not open_ids or not read_journal(journal, open_ids):
        remove_segments(journal)


def _write_members(plan: RunPlan) -> None:
    """Write to the lake which episodes the run contains: all existing ones, finished or infra."""
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
    embedder: EmbedderAccess | None = None,
    purse: Purse | None = None,
    calls: CallLog | None = None,
) -> RunContext:
    """What the run's shards share; each endpoint's concurrency is split over the worker processes.

    Args:
        workers: worker processes, 1 or more.
        served: where each model is that is served on this machine for this run.
        embedder: where seats that ask for vectors reach it.
        purse: the caps of the invocation.
        calls: log of model calls, for metrics.
    """
    request, spec, limits = plan.request, plan.spec, concurrency_by_endpoint(plan)
    subject_at = simulator_at = endpoint_of(spec.subject, plan.subject)
    simulator = None
    if spec.simulator is not None and plan.simulator is not None:
        simulator_at = endpoint_of(spec.simulator, plan.simulator)
        simulator = place_of(spec.simulator, plan.simulator, served)
    of_subject, of_simulator = limits[subject_at], limits[simulator_at]
    least = min(of_subject, of_simulator)
    return RunContext(
        home=str(plan.home.path),
        lake=plan.home.lake_at,
        invocation=secrets.token_hex(8),
        spec=spec,
        subject=place_of(spec.subject, plan.subject, served),
        simulator=simulator,
        concurrency=max(
            1, (of_subject if simulator_at == subject_at else of_subject + of_simulator) // workers
        ),
        subject_concurrency=max(1, of_subject // workers),
        simulator_concurrency=max(1, of_simulator // workers),
        environment=plan.environment,
        staged=plan.staged.digest,
        resources=tuple(sorted(request.benchmark.resources.items())),
        shards_at_once=least if least < workers else None,
        programs=max(1, cores // workers),
        fsync=request.fsync,
        check_served_model=request.model.check_served_model,
        timeout_s=request.model.timeout_s,
        patience_s=request.model.patience_s,
        embedder=embedder and embedder.shared_by(workers),
        purse=purse,
        calls=calls,
    )
