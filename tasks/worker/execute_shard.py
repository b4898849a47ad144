"""Execution of the programs of a shard of episodes, in a worker process."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from sandbox.host.resource_limits import low_priority
from sandbox.interface import Sandbox
from schemas.verdict import Outcome, TestVerdict
from tasks.benchmarks.contract import TestRun
from tasks.benchmarks.registry import BENCHMARKS
from tasks.storage.journaling.leases import lease_shard
from tasks.storage.parquet_store import Lake
from tasks.worker.deciding import Answer, answers_of, decide, id_of
from tasks.worker.images import settle_image
from tasks.worker.jobs import (
    INFRA_SUFFIX,
    ExecuteItem,
    ExecuteShard,
    RunContext,
    ShardResult,
    is_infra,
)
from tasks.worker.process import RunState, this_worker
from tasks.worker.program_book import LASTING, sandbox_of

STAGE = "execute"


def execute_shard(shard: ExecuteShard) -> ShardResult:
    """Get the verdict of every test run of a shard's episodes and write them as one part.

    If the sandbox fails, the verdicts are infra. The part's name then marks the part as pending. An
    early shard with a timeout writes no part, because its low priority may be the cause.

    Raises:
        LeaseLost: The shard was given to another worker process meanwhile.
        OSError: The part could not be written.
    """
    if shard.context.budget_meter and shard.context.budget_meter.is_late:
        return ShardResult(0, n_cut=len(shard.items))
    worker = this_worker()
    worker.start_reporting()
    run = worker.run(shard.context)
    folder = shard.context.place.tries(shard.context.run_id) / shard.context.invocation
    hold = lease_shard(folder, shard.name, over=True)
    open_outcomes = {Outcome.INFRA, Outcome.TIMEOUT} if shard.is_early else {Outcome.INFRA}
    sandbox = sandbox_of(shard.context.spec)
    known = dict(shard.known)
    verdicts: list[TestVerdict] = []
    n_run = 0
    with ThreadPoolExecutor(shard.context.programs) as threads:
        for item in shard.items:
            answers = answers_of(shard.context.spec, test_runs(shard.context, item))
            decided = list(
                threads.map(partial(_decide, run, sandbox, shard.is_early, item, known), answers)
            )
            for item_verdicts, n, _ in decided:
                verdicts += item_verdicts
                n_run += n
                known |= {
                    v.verdict_id: v for v in item_verdicts if v.verdict_id and v.outcome in LASTING
                }
            amounts = {
                "programs": sum(len(answer.due) for answer in answers),
                "runs": sum(n for _, _, n in decided),
            }
            run.count(STAGE, episodes=1, answers=len(answers), **amounts)
            if not any(
                verdict.outcome in open_outcomes
                for item_verdicts, _, _ in decided
                for verdict in item_verdicts
            ):
                settle_image(shard.context, item.problem, item.episode)
    hold.check()
    if shard.is_early and any(verdict.outcome is Outcome.TIMEOUT for verdict in verdicts):
        return ShardResult(0, n_run=n_run)
    return _write(shard, verdicts, n_run)


def test_runs(context: RunContext, item: ExecuteItem) -> tuple[TestRun, ...]:
    """Return the test programs of one episode. Empty if their files are missing or unusable."""
    if item.dialog.is_sourceless:
        return ()
    benchmark = BENCHMARKS.load(context.spec.benchmark)
    options = benchmark.options_of(context.spec)
    return tuple(
        benchmark.programs.test_runs(
            problem=item.problem, dialog=item.dialog, episode=item.episode, options=options
        )
    )


def due_verdicts(context: RunContext, item: ExecuteItem) -> list[tuple[int, str, str | None]]:
    """Return (turn, instruction, verdict id) of each verdict that an episode must have.

    The id is None if there is no answer.
    """
    tests = test_runs(context, item)
    return [
        (test.turn, name, id_of(context, test, cases))
        for test in tests
        for name, cases in test.rows
    ]


def _decide(
    run: RunState,
    sandbox: Sandbox,
    is_early: bool,
    item: ExecuteItem,
    known: Mapping[str, TestVerdict],
    answer: Answer,
) -> tuple[list[TestVerdict], int, int]:
    with run.program_slots, low_priority(is_early):
        return decide(run.context, sandbox, item, answer, known)


def _write(shard: ExecuteShard, verdicts: list[TestVerdict], n_run: int) -> ShardResult:
    spec = shard.context.spec
    faults = [v for v in verdicts if is_infra(v) and v.verdict_id is not None]
    name = shard.name + (INFRA_SUFFIX if faults else "")
    lake = Lake(shard.context.place.lake, fsync=shard.context.fsync)
    lake.write_part(
        "test_verdicts",
        verdicts,
        name,
        benchmark=spec.benchmark,
        model=spec.label,
        run_id=shard.context.run_id,
    )
    error = faults[0].detail if faults else None
    return ShardResult(len(shard.items), len(faults), name, n_run=n_run, error=error)
