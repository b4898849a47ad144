"""Shards of a run's programs; early runs and an early decision while dialogues are played.

Verdicts that earlier runs stored are reused.

The decision compares a run with its baseline. After it no further dialogue is begun. Problems are
evaluated in a fixed order: their programs run, the judgements that the decided metrics need are
requested, and their episodes are scored as in the stage `score`. A failure here changes no result:
the stages do the missing work, and the decision is made at the end of the run, from the stages'
scores.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from schemas.content_id import content_id
from schemas.episode import Episode, Score
from schemas.errors import CorruptRows, SchemaMismatch
from schemas.lake.rows import from_arrow
from schemas.verdict import JudgeVerdict, TestVerdict
from tasks.driver.fan_out import ClusterResources, even_shards, living_workers
from tasks.driver.stage import Ahead
from tasks.planning.decisions.evidence import Evidence
from tasks.planning.plan import RunPlan
from tasks.worker.execute_shard import due_verdicts, execute_shard
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


ScoresOf = Callable[
    [Sequence[Episode], Sequence[TestVerdict], Sequence[JudgeVerdict]], Iterable[Score]
]
"""Function that scores episodes with their verdicts and judgements."""
JudgementsOf = Callable[[Sequence[Episode], Sequence[TestVerdict]], Sequence[JudgeVerdict]]
"""Function that requests the judgements of episodes and waits for them."""
_SHARD = 4
"""Number of dialogues whose programs are one shard."""
_LEAST_BATCH, _BATCHES_IN_FLIGHT = 8, 8
"""Minimum number of problems per batch, and number of batches per `concurrency` dialogues.

A small batch wastes little if the decision falls within it.
"""
_WAKE_S = 0.5
_TRIES = 2
"""Number of retries of a batch with a faulty problem. After them, the problem is left out."""


class DecideAhead:
    """Early decision of a comparison: scores finished problems in batches, in a separate thread.

    Args:
        scores_of: Scores episodes as the stage `score` does.
        judgements_of: Requests judgements. None if no metric of the decision needs judgements.
        on_batch: Called after each scored batch.
    """

    def __init__(
        self,
        plan: RunPlan,
        evidence: Evidence,
        client: Any,
        scores_of: ScoresOf,
        judgements_of: JudgementsOf | None = None,
        on_batch: Callable[[], None] = lambda: None,
    ) -> None:
        self._plan, self._evidence, self._client = plan, evidence, client
        self._scores_of, self._judgements_of, self._on_batch = scores_of, judgements_of, on_batch
        self._missing = Counter(episode.problem_id for episode in plan.wanted)
        self._finished: set[str] = set()
        self._begun: set[str] = set()
        self._is_expected = False
        self._problem_of = {episode.episode_id: episode.problem_id for episode in plan.wanted}
        self._ids: dict[str, list[str]] = {}
        for episode_id, problem in self._problem_of.items():
            self._ids.setdefault(problem, []).append(episode_id)
        self._n_taken = self._n_tries = 0
        self._least = _LEAST_BATCH
        self._lock, self._wake, self._over = threading.Lock(), threading.Event(), threading.Event()
        self.is_decided = False
        self.n_run = 0
        """Number of programs that were run."""
        self.end(plan.episodes.finished(self._problem_of))

    @property
    def order(self) -> tuple[str, ...]:
        """Problems in the order in which they are begun."""
        return self._evidence.order

    def end(self, episodes: Iterable[str]) -> None:
        """Record that these episodes have ended."""
        with self._lock:
            for episode_id in set(episodes) - self._finished:
                problem = self._problem_of.get(episode_id)
                if problem is not None:
                    self._finished.add(episode_id)
                    self._missing[problem] -= 1
        self._wake.set()

    def begin(self, problems: Iterable[str]) -> None:
        """Record that the dialogues of these problems begin."""
        self._begun.update(problems)

    def take(self, result: ShardResult) -> None:
        """Receive the result of a shard of dialogues."""
        self.end(result.finished)

    @contextmanager
    def deciding(self, context: RunContext) -> Iterator[None]:
        """Evaluate problems while the block runs, first those whose episodes ended earlier.

        Args:
            context: Context of the current attempt of `converse`.
        """
        self._least = max(_LEAST_BATCH, context.concurrency // _BATCHES_IN_FLIGHT)
        self._over.clear()
        self.n_run = 0
        self._decide(context, 1)
        thread = threading.Thread(
            target=self._go_on, args=(context, self._least), name="parley-decide-ahead", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._wake.set()
            thread.join()

    def is_enough(self) -> bool:
        """Return True if no further dialogue needs to be begun."""
        return self.is_decided

    def is_behind(self) -> bool:
        """Return True if two batches wait for evaluation. No dialogue should begin then.

        The waiting batches may already decide, and further requests would be wasted.
        """
        if self.is_decided or self._over.is_set():
            return False
        return len(self._ready()) >= (1 if self._is_expected else 2 * self._least)

    def is_probably_enough(self) -> bool:
        """Return True if the begun problems suffice, if unfinished ones score like finished ones.

        Without this check, an endpoint with many concurrent requests would get as many new requests
        while the deciding answers are still in flight. Each scored batch updates the expectation.
        """
        return self._is_expected and not self._over.is_set()

    def close(self, plan: RunPlan) -> None:
        """Limit the plan to the problems that were begun."""
        begun = plan.episodes.existing(self._problem_of)
        plan.narrow({self._problem_of[episode_id] for episode_id in begun})

    def _go_on(self, context: RunContext, least: int) -> None:
        while not self._over.is_set() and not self.is_decided:
            self._wake.wait(_WAKE_S)
            self._wake.clear()
            self._decide(context, 1 if self._is_expected else least)

    def _decide(self, context: RunContext, least: int) -> None:
        ready = self._ready()
        if len(ready) < least or self.is_decided:
            return
        try:
            self._evidence.take(ready, self._scores(context, ready))
        except Exception:  # noqa: BLE001  (whatever it was: the stages meet it again, and say so; the run's end decides)
            self._over.set()
            return
        if self._evidence.n_in_order < self._n_taken + len(ready) and self._n_tries < _TRIES:
            self._n_tries += 1
            return
        self._evidence.skip_faults()
        self._n_tries = 0
        self._n_taken += len(ready)
        self.is_decided = self._evidence.is_decided
        self._is_expected = not self.is_decided and self._evidence.would_decide(self._begun)
        self._on_batch()

    def _ready(self) -> tuple[str, ...]:
        with self._lock:
            waiting = self.order[self._n_taken :]
            n = next(
                (n for n, problem in enumerate(waiting) if self._missing[problem]), len(waiting)
            )
            return waiting[:n]

    def _scores(self, context: RunContext, problems: Sequence[str]) -> Iterable[Score]:
        ids = [episode_id for problem in problems for episode_id in self._ids[problem]]
        episodes = from_arrow(self._plan.episodes.rows(ids), Episode)
        verdicts = self._verdicts(context, episodes) if self._plan.runs_programs else []
        judged = self._judgements_of(episodes, verdicts) if self._judgements_of else ()
        return self._scores_of(episodes, verdicts, judged)

    def _verdicts(self, context: RunContext, episodes: Sequence[Episode]) -> list[TestVerdict]:
        verdicts = known_verdicts(self._plan)
        shards = [
            shard_of(self._plan, context, group, verdicts)
            for group in even_shards(episodes, _SHARD)
        ]
        futures = [self._resources.submit(execute_shard, shard, priority=1) for shard in shards]
        results = [future.result() for future in futures]
        self.n_run += sum(result.n_run for result in results)
        folder = self._plan.lake.folder("test_verdicts", **self._plan.keys)
        return [
            verdict
            for shard, result in zip(shards, results, strict=True)
            for verdict in self._plan.lake.read_part(
                "test_verdicts",
                TestVerdict,
                folder / f"part-{shard.name}{INFRA_SUFFIX if result.n_infra else ''}.parquet",
            )
        ]

    @cached_property
    def _resources(self) -> ClusterResources:
        return ClusterResources(self._client)
