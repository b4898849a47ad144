"""A shard of judgements, asked for by a worker process."""

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from schemas.errors import BudgetSpent, InfraError, ModelUnavailable
from tasks.benchmarks import registry
from tasks.judging.judgement import Judgement, ask_judge
from tasks.judging.rubric import Rubric
from tasks.language.chat_model import ChatModel, ChatRequest
from tasks.language.opening import open_model
from tasks.storage.journaling.segments import read_segments
from tasks.storage.journaling.shipping import open_segment
from tasks.worker.jobs import JudgeContext, JudgeJob, JudgeResult, JudgeShard
from tasks.worker.process import this_worker
from tasks.worker.purse import metered
from warehouse.object_path import ObjectPath

STAGE = "judge"


class JudgeState:
    """What the judgements of one run hold open in this process; for the process's loop alone."""

    def __init__(self, context: JudgeContext, count: Callable[..., None]) -> None:
        self.context, self.count = context, count
        self.log = open_segment(judgement_folder(context), "a judgement", fsync=context.fsync)
        self._models: dict[str, ChatModel] = {}

    def rubric(self, name: str) -> Rubric:
        """The benchmark's rubric of that name."""
        judging = registry.load(self.context.benchmark).judging
        assert judging is not None, f"{self.context.benchmark} has no rubrics, and was asked for judgements"
        return judging.rubrics[name]

    def model(self, rubric: str) -> ChatModel:
        """The open model that judges by a rubric, made at first use."""
        if rubric not in self._models:
            seat = self.context.seats[rubric]
            opened = open_model(
                seat.judge.judge,
                seat.endpoint,
                concurrency=seat.concurrency,
                check_served_model=seat.check_served_model,
                timeout_s=seat.timeout_s,
                patience_s=seat.patience_s,
            )
            self._models[rubric] = metered(opened, self.context.purse, asks_anyway=True)
        return self._models[rubric]

    def keep(self, judgement: Judgement) -> None:
        """Write a judgement to the log, at once."""
        self.log.write({name: value for name, value in judgement.__dict__.items() if value is not None})

    async def close(self) -> None:
        """Close models and log."""
        for model in self._models.values():
            await model.aclose()
        self.log.close()


def judgement_folder(context: JudgeContext) -> Path:
    """Where a run's judgements are kept until Parquet holds them."""
    return context.place.judgements(context.run_id)


def state_key(run_id: str) -> str:
    """Name of a run's judgements among the things that a worker process holds open."""
    return f"judge {run_id}"


def judge_shard(shard: JudgeShard) -> JudgeResult:
    """Ask for a shard's judgements at once. Each is kept as it comes.

    Raises:
        DiskFull: no room for a judgement.
        OSError: no right to write.
    """
    worker = this_worker()
    worker.start_reporting()
    key = state_key(shard.context.run_id)
    state = worker.held(key, lambda count: JudgeState(shard.context, count))
    known = set() if _is_first(shard) else read_judgements(judgement_folder(shard.context)).keys()
    result = worker.do(_judge_all(state, [job for job in shard.jobs if job.judgement_id not in known]))
    state.log.flush()
    return result


def _is_first(shard: JudgeShard) -> bool:
    """Whether no worker began it before. Dask gives a dead worker's shard to another one, which knows nothing of its answers."""
    folder = judgement_folder(shard.context)
    mark = folder / f"{shard.name}.begun"
    if isinstance(mark, ObjectPath):  # Dask gives a shard to a second worker once the first has died, not beside it
        is_first = not mark.exists()
        mark.write_bytes(b"")
        return is_first
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        return True
    return False


async def _judge_all(state: JudgeState, jobs: list[JudgeJob]) -> JudgeResult:
    outcomes = await asyncio.gather(*(_judge(state, job) for job in jobs))
    faults = [fault for fault in outcomes if isinstance(fault, InfraError)]
    lost = [fault.n_calls for fault in faults if isinstance(fault, ModelUnavailable)]
    return JudgeResult(
        n_jobs=len(jobs),
        n_infra=len(faults),
        model_calls=sum(outcome for outcome in outcomes if isinstance(outcome, int)) + sum(lost),
        error=str(faults[0]) if faults else None,
        permanent=bool(faults) and all(isinstance(fault, ModelUnavailable) and fault.permanent for fault in faults),
        n_cut=sum(isinstance(outcome, BudgetSpent) for outcome in outcomes),
    )


async def _judge(state: JudgeState, job: JudgeJob) -> int | InfraError | BudgetSpent:
    """Requests sent, or the fault for which the judgement is owed again, or the cap that kept it from being asked for."""
    rubric = state.rubric(job.rubric)
    request = ChatRequest(
        messages=job.messages,
        sampling=state.context.seats[job.rubric].judge.sampling,
        seed=0,
        problem_id=job.problem_id,
        turn=job.turn,
        sample=job.sample,
        answer_schema=rubric.schema,
        rubric=f"{state.context.benchmark}.{job.rubric}",
    )
    try:
        if state.context.purse:
            state.context.purse.check()
        judgement = await ask_judge(state.model(job.rubric), rubric, request, job.judgement_id)
    except BudgetSpent as spent:
        return spent
    except InfraError as fault:
        state.count(STAGE, faults=1)
        return fault
    state.keep(judgement)
    state.count(STAGE, episodes=1, output_tokens=judgement.output_tokens or 0)
    return judgement.n_calls


def read_judgements(folder: Path) -> Mapping[str, Judgement]:
    """Judgements of a log, by id."""
    found = {}
    for row in read_segments(folder):
        with suppress(ValueError):
            found[row.get("judgement_id", "")] = Judgement.model_validate(row)
    return found
