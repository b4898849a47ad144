"""Early decision of a run's comparison with its baseline, while dialogues are played.

After it no further dialogue is begun. Problems are evaluated in a fixed order: their programs run,
the judgements that the decided metrics need are requested, and their episodes are scored as in the
stage `score`. A failure here changes no result: the stages do the missing work, and the decision is
made at the end of the run, from the stages' scores.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from schemas.episode import Episode, Score
from schemas.grouping import grouped
from schemas.lake.rows import PackedRows, from_arrow
from schemas.verdict import JudgeVerdict, TestVerdict
from tasks.driver.fan_out import ClusterResources, even_shards
from tasks.execute import known_verdicts, shard_of
from tasks.planning.decisions.evidence import Evidence
from tasks.planning.plan import RunPlan
from tasks.score import score_requests
from tasks.worker.execute_shard import execute_shard
from tasks.worker.jobs import INFRA_SUFFIX, RunContext, ShardResult

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
        judgements_of: Requests judgements. None if no metric of the decision needs judgements.
    """

    def __init__(
        self,
        plan: RunPlan,
        evidence: Evidence,
        client: Any,
        judgements_of: JudgementsOf | None = None,
    ) -> None:
        self._plan, self._evidence, self._client = plan, evidence, client
        self._judgements_of = judgements_of
        self._missing = Counter(episode.problem_id for episode in plan.wanted)
        self._finished: set[str] = set()
        self._begun: set[str] = set()
        self._is_expected = False
        self._problem_of = {episode.episode_id: episode.problem_id for episode in plan.wanted}
        self._ids = grouped((problem, name) for name, problem in self._problem_of.items())
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
        rows = PackedRows("episodes", episodes), PackedRows("test_verdicts", verdicts)
        requests = score_requests(self._plan, *rows, judged)
        return [row for request in requests for row in self._plan.benchmark.scores.score(request)]

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
