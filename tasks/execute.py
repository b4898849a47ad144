"""Prefect task: run the programs of a run's episodes in the sandbox, on Dask workers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prefect import task

from schemas.content_id import content_id
from schemas.episode import Episode
from tasks.cache_policy import OPTIONS
from tasks.driver.execution import execute_shards, item_of, known_verdicts, with_known_verdicts
from tasks.driver.fan_out import closing_run, fan_out, living_workers
from tasks.planning.plan import RunPlan
from tasks.storage.journaling.merging import replace_by_one
from tasks.storage.journaling.tries import shard_try
from tasks.worker.execute_shard import execute_shard, test_runs
from tasks.worker.jobs import INFRA_SUFFIX, ExecuteResult, RunContext

MAX_ATTEMPTS = 3


@dataclass
class Executed:
    """The stage's results. `parts` hold the run's verdicts."""

    parts: tuple[str, ...]
    n_run: int = 0
    error: str | None = None
    is_cut: bool = False
    """The cap on time stopped it."""


@task(name="execute", task_run_name="execute {title}", **OPTIONS)
def execute(
    plan: RunPlan,
    context: RunContext,
    episodes: Sequence[Episode],
    client: Any,
    title: str,
    on_result: Callable[[ExecuteResult], None] = lambda _: None,
) -> Executed:
    """Decide every test run of the run's episodes. No program with a verdict in the same environment is run again."""
    shards = {shard.name: shard for shard in execute_shards(plan, context, episodes)}
    whole = content_id(sorted(shards))
    if plan.lake.is_whole(
        "test_verdicts", plan.lake.folder("test_verdicts", **plan.keys) / f"part-{whole}.parquet"
    ):
        plan.lake.keep_only("test_verdicts", (whole,), **plan.keys)
        return Executed(parts=(whole,))
    done = Executed(parts=tuple(shards))
    with closing_run(client, plan.run_id):
        for _ in range(MAX_ATTEMPTS):
            finished = _finished(plan)
            missing = [shard for name, shard in shards.items() if name not in finished]
            if not missing:
                break
            with shard_try(plan.home.tries(plan.run_id), context.invocation):
                todo = with_known_verdicts(context, known_verdicts(plan), missing)
                at_once = len(living_workers(client)) * (
                    context.programs + 1
                )  # one more than can run: none waits for the driver
                results, lost = fan_out(client, execute_shard, todo, on_result, at_once=at_once)
            done.n_run += sum(result.n_run for result in results)
            done.error = next(
                (r.error for r in results if r.error), "a worker process died" if lost else None
            )
            done.is_cut = any(result.is_cut for result in results)
            if done.is_cut:
                break
    finished = _finished(plan)
    done.parts = tuple(name if name in finished else name + INFRA_SUFFIX for name in shards)
    plan.lake.keep_only("test_verdicts", done.parts, **plan.keys)
    if len(shards) > 1 and finished.issuperset(shards):
        parts = plan.lake.parts("test_verdicts", **plan.keys)
        rows = plan.lake.read_arrow("test_verdicts", parts)
        replace_by_one(plan.lake, "test_verdicts", rows, whole, parts, **plan.keys)
        done.parts = (whole,)
    return done


def _finished(plan: RunPlan) -> set[str]:
    parts = [
        part
        for part in plan.lake.parts("test_verdicts", **plan.keys)
        if not part.stem.endswith(INFRA_SUFFIX)
    ]
    return {
        part.stem.removeprefix("part-")
        for part in parts
        if plan.lake.is_whole("test_verdicts", part)
    }


@dataclass(frozen=True)
class Expected:
    """Facts about a run's answers, known before their programs run."""

    verdicts: frozenset[tuple[str, int, str]] = frozenset()
    """(episode, turn, instruction) of every verdict that the run must have."""
    n_unreadable: int = 0
    """Answers in which no program was found."""


def expected_verdicts(context: RunContext, plan: RunPlan, episodes: Sequence[Episode]) -> Expected:
    """Return which verdicts the run must have, and how many of its answers hold no program."""
    verdicts, unreadable = set[tuple[str, int, str]](), set[tuple[str, int]]()
    for episode in episodes:
        for test in test_runs(context, item_of(plan, episode)):
            verdicts.update((episode.episode_id, test.turn, name) for name, _ in test.rows)
            if test.code is not None and not test.is_readable:
                unreadable.add((episode.episode_id, test.turn))
    return Expected(frozenset(verdicts), len(unreadable))
