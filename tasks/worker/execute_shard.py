"""A shard of episodes, whose programs are run in the sandbox by a worker process."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from sandbox.interface import Sandbox
from sandbox.judging.function_tests import run_program
from schemas.episode import Episode, StopReason
from schemas.errors import SandboxUnavailable
from schemas.verdict import Outcome, ProgramVerdict, TestVerdict
from tasks.benchmarks import registry
from tasks.benchmarks.contract import TestRun
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tasks.storage.tries import take_shard
from tasks.worker.jobs import INFRA_SUFFIX, ExecuteItem, ExecuteResult, ExecuteShard, RunContext, is_infra
from tasks.worker.process import RunState, this_worker
from tasks.worker.program_runner import program_id, sandbox_of

STAGE = "execute"
DECIDED = ("outcome", "detail", "reason", "duration_s")
"""Fields of a verdict that running the program decides."""


def execute_shard(shard: ExecuteShard) -> ExecuteResult:
    """Decide every test run of a shard's episodes and write the verdicts as one part.

    If the sandbox fails, its verdicts are infra. The part is then named as unfinished, so that it is owed again.

    Raises:
        ShardTaken: it was given to another worker process meanwhile.
        OSError: the part could not be written.
    """
    worker = this_worker()
    worker.start_reporting()
    run = worker.run(shard.context)
    folder = Home.at(shard.context.home).tries(shard.context.run_id) / shard.context.invocation
    hold = take_shard(folder, shard.name, over=True)
    sandbox = sandbox_of(shard.context.spec)
    known = {verdict.verdict_id: verdict for verdict in shard.known}
    verdicts: list[TestVerdict] = []
    n_run = 0
    with ThreadPoolExecutor(shard.context.programs) as threads:
        for item in shard.items:
            tests = test_runs(shard.context, item)
            decided = list(threads.map(lambda test, item=item: _decide(run, shard, sandbox, item, test, known), tests))
            for verdict, ran in decided:
                verdicts.append(verdict)
                n_run += ran
                if verdict.verdict_id and verdict.outcome in (Outcome.PASSED, Outcome.FAILED):
                    known[verdict.verdict_id] = ProgramVerdict.model_validate(
                        {name: getattr(verdict, name) for name in ("verdict_id", *DECIDED)}
                    )
            run.count(STAGE, episodes=1, programs=len(tests))
    hold.check()
    return _write(shard, verdicts, n_run)


def test_runs(context: RunContext, item: ExecuteItem) -> tuple[TestRun, ...]:
    """The programs of one episode, as its benchmark wants them."""
    benchmark = registry.load(context.spec.benchmark)
    return tuple(benchmark.programs.test_runs(item.problem, item.dialog, item.episode, benchmark.options_of(context.spec)))


def verdict_id_of(context: RunContext, run: TestRun) -> str | None:
    """The verdict's id; None where there is no answer to run."""
    if run.code is None:
        return None
    return program_id(context.spec, context.environment, run.kind, run.code, run.tests)


def _told_in_dialogue(episode: Episode) -> dict[str, ProgramVerdict]:
    """Reports of programs run within the dialogue, by verdict id; timeouts too, since later messages built on them."""
    return {step.program.verdict_id: step.program for step in episode.steps if step.program is not None}


def _decide(
    run: RunState, shard: ExecuteShard, sandbox: Sandbox, item: ExecuteItem, test: TestRun, known: Mapping[str, ProgramVerdict]
) -> tuple[TestVerdict, bool]:
    spec, episode = shard.context.spec, item.episode
    key = verdict_id_of(shard.context, test)
    verdict = TestVerdict(
        run_id=spec.run_id,
        benchmark=spec.benchmark,
        model=spec.subject.label,
        episode_id=episode.episode_id,
        problem_id=episode.problem_id,
        sample=episode.sample,
        turn=test.turn,
        instruction_id=test.instruction_id,
        outcome=Outcome.ERROR,
        verdict_id=key,
        sandbox=spec.sandbox,
    )
    if test.code is None or key is None:
        outcome = Outcome.INFRA if episode.stop_reason is StopReason.INFRA else Outcome.ERROR
        return verdict.model_copy(update={"outcome": outcome, "detail": episode.error or "no answer"}), False
    told = _told_in_dialogue(episode).get(key) or known.get(key)
    if told is not None:
        return _with_result(verdict, told), False
    try:
        with run.program_slots:
            said = run_program(sandbox, test.kind, test.code, test.tests, spec.limits)
    except SandboxUnavailable as fault:
        return verdict.model_copy(update={"outcome": Outcome.INFRA, "detail": str(fault)}), True
    return _with_result(verdict, said), True


def _with_result(verdict: TestVerdict, said: ProgramVerdict) -> TestVerdict:
    return verdict.model_copy(update={name: getattr(said, name) for name in DECIDED})


def _write(shard: ExecuteShard, verdicts: list[TestVerdict], n_run: int) -> ExecuteResult:
    spec = shard.context.spec
    faults = [v for v in verdicts if is_infra(v) and v.verdict_id is not None]
    name = shard.name + (INFRA_SUFFIX if faults else "")
    lake = Lake(Home.at(shard.context.home).lake, fsync=shard.context.fsync)
    lake.write_part("test_verdicts", verdicts, name, benchmark=spec.benchmark, model=spec.subject.label, run_id=spec.run_id)
    return ExecuteResult(name, len(shard.items), n_run, len(faults), faults[0].detail if faults else None)


def with_known(shard: ExecuteShard, known: Mapping[str, ProgramVerdict], wanted: set[str]) -> ExecuteShard:
    """The shard with those known verdicts that it asks for."""
    return replace(shard, known=tuple(known[key] for key in sorted(wanted & known.keys())))
