"""Requests of a shard of judgements, in a worker process."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from schemas.errors import BudgetSpent, InfraError, ModelUnavailable
from schemas.run import EndpointProfile
from tasks.benchmarks.registry import BENCHMARKS
from tasks.judging.rubric import Judgement, Rubric, ask_judge
from tasks.language.chat_model import ChatModel, ChatRequest, ignore_send
from tasks.language.opening import open_model, profile_of
from tasks.storage.journaling.segments import Form
from tasks.storage.ledger import SendLog
from tasks.storage.paid_calls import Calls
from tasks.worker.budget_meter import metered
from tasks.worker.call_log import DRIFT, JUDGE, logged
from tasks.worker.jobs import JudgeContext, JudgeJob, JudgeShard, ShardResult
from tasks.worker.process import this_worker

STAGE = "judge"
DRIFT_SHARD = "drift-"
"""Prefix of the names of shards with drift cases. Drift cases are not part of a run's cost."""
JUDGEMENTS = Form(
    "a judgement",
    lambda row: Judgement.model_validate(row["answer"]),
    load_old=lambda row: {row["judgement_id"]: Judgement.model_validate(row)},
)


class JudgeState:
    """Open resources of one run's judgements. Use them only on the process's event loop."""

    def __init__(self, context: JudgeContext, count: Callable[..., None]) -> None:
        self.context, self.count = context, count
        self.judgements = Calls(
            judgement_folder(context), JUDGEMENTS, fsync=context.fsync, remembers=False
        )
        self.sends = SendLog(context.place.sends(context.run_id))
        self._models: dict[tuple[str, str], ChatModel] = {}
        self._opened: dict[str, ChatModel] = {}

    def rubric(self, name: str) -> Rubric:
        """Return the benchmark's rubric of this name."""
        judging = BENCHMARKS.load(self.context.spec.benchmark).judging
        assert judging is not None, (
            f"{self.context.spec.benchmark} has no rubrics, and was asked for judgements"
        )
        return replace(judging.rubrics[name], is_reworded=name in self.context.reworded)

    def model(self, rubric: str, role: str) -> ChatModel:
        """Return the open model that judges by a rubric.

        Args:
            rubric: Name of the rubric.
            role: JUDGE, or DRIFT for drift cases, whose requests are not counted for the run.
        """
        if (rubric, role) not in self._models:
            opened = open_model(
                self.context.judges[rubric],
                on_send=ignore_send if role == DRIFT else self.sends.count,
            )
            self._opened[rubric] = opened
            self._models[rubric, role] = metered(
                opened, self.context.budget_meter, asks_anyway=True
            )
        return logged(self._models[rubric, role], self.context.calls, f"{role} {rubric}")

    def profiles(self) -> tuple[tuple[str, EndpointProfile], ...]:
        """Return pairs of `judge RUBRIC` and known endpoint properties of the judges in use."""
        profiles = ((rubric, profile_of(model)) for rubric, model in tuple(self._opened.items()))
        return tuple(
            (f"judge {rubric}", profile) for rubric, profile in profiles if profile is not None
        )

    async def close(self) -> None:
        """Close the judges' models and this process's segment of judgements."""
        for model in self._models.values():
            await model.aclose()
        self.judgements.close()
        self.sends.close()


def judgement_folder(context: JudgeContext) -> Path:
    """Return the folder of a run's judgements that are not yet in Parquet."""
    return context.place.judgements(context.run_id)


def judge_shard(shard: JudgeShard) -> ShardResult:
    """Request a shard's judgements concurrently. Each is stored as it arrives.

    Raises:
        LeaseLost: Another worker began the shard and died, so this process lacks the shard's
            latest answers.
        DiskFull: The disk has no room for a judgement.
        OSError: The process may not write.
    """
    worker = this_worker()
    worker.start_reporting()
    context = shard.context
    context.lease(shard.name)
    state = worker.resource(context.key, lambda count: JudgeState(context, count))
    result = worker.do(
        _judge_all(state, shard.jobs, DRIFT if shard.name.startswith(DRIFT_SHARD) else JUDGE)
    )
    state.judgements.flush()
    return result


async def _judge_all(state: JudgeState, jobs: Sequence[JudgeJob], role: str) -> ShardResult:
    outcomes = await asyncio.gather(*(_judge(state, job, role) for job in jobs))
    faults = [fault for fault in outcomes if isinstance(fault, InfraError)]
    lost = [fault.n_calls for fault in faults if isinstance(fault, ModelUnavailable)]
    n_cut = sum(isinstance(outcome, BudgetSpent) for outcome in outcomes)
    return ShardResult(
        n_items=len(jobs) - n_cut,
        n_infra=len(faults),
        model_calls=sum(outcome for outcome in outcomes if isinstance(outcome, int)) + sum(lost),
        error=str(faults[0]) if faults else None,
        permanent=bool(faults)
        and all(isinstance(fault, ModelUnavailable) and fault.permanent for fault in faults),
        n_cut=n_cut,
        profiles=state.profiles(),
    )


async def _judge(state: JudgeState, job: JudgeJob, role: str) -> int | InfraError | BudgetSpent:
    """Request a judgement. Return the number of requests, or the fault or cap that prevented it."""
    rubric = state.rubric(job.rubric)
    request = ChatRequest(
        messages=job.messages,
        sampling=state.context.samplings[job.rubric],
        seed=0,
        problem_id=job.problem_id,
        turn=job.turn,
        sample=job.sample,
        dialog_id=job.dialog_id,
        answer_schema=rubric.schema,
        rubric=f"{state.context.spec.benchmark}.{job.rubric}",
    )
    try:
        if state.context.budget_meter:
            state.context.budget_meter.check()
        judgement = await state.judgements.find(
            job.judgement_id,
            lambda: ask_judge(state.model(job.rubric, role), rubric, request, job.judgement_id),
        )
    except BudgetSpent as spent:
        return spent
    except InfraError as fault:
        state.count(STAGE, faults=1)
        return fault
    state.count(STAGE, episodes=1, output_tokens=judgement.output_tokens or 0)
    if state.context.calls:
        state.context.calls.answered(f"{role} {job.rubric}", judgement, turns=1)
    return judgement.n_calls
