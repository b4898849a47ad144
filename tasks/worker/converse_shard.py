"""Play of a shard of episodes in a worker process."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

from schemas.content_id import content_id
from schemas.dialog import Dialog, Role
from schemas.episode import Episode, Step, StepKind, StopReason
from schemas.errors import BudgetSpent, DiskFull, ImageFault, InfraError, ServerUnavailable
from schemas.lake.records import utc_now
from schemas.problem import Problem
from schemas.run import RunSpec
from tasks.benchmarks.registry import BENCHMARKS
from tasks.benchmarks.setting import CastRequest
from tasks.dialogue.agents.contract import AgentRequest, MakeSubject
from tasks.dialogue.agents.registry import AGENTS
from tasks.dialogue.engine import Cast, Ending, Transcript, play_dialogue, visible_steps
from tasks.dialogue.tools import ProgramRunner
from tasks.language.chat_model import ChatModel, Completion
from tasks.storage.journaling.dialogue_calls import DialogueCall, EpisodeCalls, ReplayedModel
from tasks.storage.journaling.leases import ShardLease
from tasks.storage.parquet_store import Lake
from tasks.storage.staged_rows import context_of, staged_dialogs, staged_problems
from tasks.worker.call_log import SIMULATOR, SUBJECT
from tasks.worker.jobs import ConverseShard, EpisodeJob, RunContext, ShardResult
from tasks.worker.process import RunState, this_worker
from tasks.worker.program_book import BookReader

STAGE = "converse"


def converse_shard(shard: ConverseShard) -> ShardResult:
    """Play a shard's episodes concurrently and write them as one Parquet part.

    Raises:
        LeaseLost: Another worker began the shard and died, so this process lacks the latest
            messages. Or the shard was given to another worker meanwhile.
        OSError: A call or the part could not be written. Stored calls remain.
        Exception: Parley's own code failed. All other episodes of the shard are written first.
    """
    worker = this_worker()
    worker.start_reporting()
    hold = shard.context.lease(
        _name(shard, ((job.episode_id, job.attempt) for job in shard.episodes))
    )
    played = worker.do(_play_all(worker.run(shard.context), shard.context, _tasks(shard), hold))
    hold.check()
    run = worker.run(shard.context)
    result = _write(shard, [outcome for outcome in played if isinstance(outcome, _Ended)])
    for outcome in played:
        if isinstance(outcome, BaseException) and not isinstance(outcome, BudgetSpent):
            raise outcome
    return replace(
        result,
        n_cut=sum(isinstance(outcome, BudgetSpent) for outcome in played),
        profiles=run.profiles(),
    )


@dataclass(frozen=True)
class _Task:
    """Pending episode with its staged rows."""

    job: EpisodeJob
    dialog: Dialog
    problem: Problem


def _tasks(shard: ConverseShard) -> list[_Task]:
    """Read the staged rows of a shard's episodes from the lake."""
    context, jobs = shard.context, shard.episodes
    dataset = (
        context.place.lake,
        context.spec.benchmark,
        context.spec.dataset_version,
        context.staged,
    )
    dialogs = staged_dialogs(*dataset).find([(job.dialog_at, job.row_digest) for job in jobs])
    problems = staged_problems(*dataset).find([(job.problem_at, job.problem_id) for job in jobs])
    return [_Task(*of_one) for of_one in zip(jobs, dialogs, problems, strict=True)]


async def _play_all(
    run: RunState, context: RunContext, tasks: Sequence[_Task], hold: ShardLease
) -> "list[_Ended | BaseException]":
    gold_answer = BENCHMARKS.load(context.spec.benchmark).play.gold_answer

    async def with_image(task: _Task) -> _Ended:
        if task.problem.repo is None:
            return await when_there_is_room(task)
        async with run.images.ready(task.problem.repo) as ready:
            problem = task.problem.model_copy(update={"repo": ready.repository})
            return await when_there_is_room(replace(task, problem=problem), ready.fault)

    async def when_there_is_room(task: _Task, fault: InfraError | None = None) -> _Ended:
        async with run.gate:
            with run.knowing(task.problem.problem_id, partial(gold_answer, task.problem)):
                return await _play(run, context, task, hold, fault)

    return await asyncio.gather(*(with_image(task) for task in tasks), return_exceptions=True)


async def _play(
    run: RunState,
    context: RunContext,
    task: _Task,
    hold: ShardLease,
    fault: InfraError | None = None,
) -> "_Ended":
    job = task.job
    hold.glance()
    run.check_not_stopped()
    if context.budget_meter:
        context.budget_meter.check()

    def put(answers: Mapping[str, Step | Completion]) -> None:
        hold.glance()
        run.check_not_stopped()
        rows = {
            key: DialogueCall(job.episode_id, job.attempt, answer)
            for key, answer in answers.items()
        }
        try:
            run.calls.put(rows, lease=hold)
        except (DiskFull, OSError, ServerUnavailable) as fault:
            run.stop(fault)
            raise

    calls = EpisodeCalls(job.episode_id, job.begun, put)

    def keep(step: Step) -> None:
        is_message = step.kind is StepKind.MESSAGE
        is_answer = is_message and step.role is Role.ASSISTANT and not step.is_scripted
        # A message that no request was paid for is written with its reply.
        is_paid = not is_message or step.n_calls > 0 or is_answer
        calls.add(step, is_paid=is_paid)
        if not is_paid:
            return
        n_in, n_out = step.input_tokens or 0, step.output_tokens or 0
        is_simulator = step.role is Role.USER
        run.count(
            STAGE,
            turns=int(is_answer),
            input_tokens=n_in,
            output_tokens=n_out,
            simulator_input_tokens=n_in * is_simulator,
            simulator_output_tokens=n_out * is_simulator,
        )
        if context.calls and (step.n_calls or is_answer):
            role = SUBJECT if step.role is Role.ASSISTANT else SIMULATOR
            context.calls.answered(role, step, turns=int(is_message))

    started = utc_now()
    before = context_of(Lake(context.place.lake), task.dialog)
    opening = Transcript(
        task.problem,
        task.dialog,
        job.sample,
        job.seed,
        turn=1,
        steps=job.begun.steps,
        context=before,
    )
    programs = BookReader(
        lambda: run.programs, calls.keep_answers, lambda: run.count("converse", programs=1)
    )
    if fault is None:
        ending = await _play_with_agent(run, context, opening, programs, calls, keep)
    else:
        ending = Ending(
            opening.steps,
            StopReason.INFRA,
            str(fault),
            isinstance(fault, ImageFault) and fault.permanent,
        )
    is_fault = ending.stop_reason is StopReason.INFRA
    if not is_fault:
        calls.keep_answers()  # A refusal is in no stored step.
    run.count(STAGE, episodes=int(not is_fault), faults=int(is_fault))
    return _Ended(job, ending, _episode(context, task, ending, started), programs.n_run)


async def _play_with_agent(
    run: RunState,
    context: RunContext,
    opening: Transcript,
    programs: ProgramRunner,
    calls: EpisodeCalls,
    keep: Callable[[Step], None],
) -> Ending:
    """Play the dialogue with the run's agent, if any. A failing agent is an infra fault."""
    if (fault := opening.dialog.environment_fault) is not None:
        return Ending((), StopReason.ENVIRONMENT_MISSING, fault)
    if opening.dialog.is_sourceless:
        return Ending(
            (),
            StopReason.NOT_ASKED,
            "what its programs run in is not there, or is of another release",
        )
    spec = context.spec
    subject = ReplayedModel(run.model(context.subject, SUBJECT), calls)
    try:
        async with _begun(run, spec, subject, opening) as make_subject:
            return await play_dialogue(
                opening, _cast(run, context, opening, programs, calls, subject, make_subject), keep
            )
    except InfraError as fault:
        return Ending(opening.steps, StopReason.INFRA, str(fault))


def _begun(
    run: RunState, spec: RunSpec, subject: ChatModel, opening: Transcript
) -> AbstractAsyncContextManager[MakeSubject | None]:
    """Return a context manager that starts the run's agent.

    The context manager yields None if a bare chat model is the subject.
    """
    if spec.agent is None:
        return nullcontext()
    agent, repository = AGENTS.load(spec.agent.name), opening.problem.repo
    return agent.begin(
        AgentRequest(
            options=agent.options_of(spec.agent),
            model=subject,
            sampling=BENCHMARKS.load(spec.benchmark).setting(spec.setting).bounded(spec.sampling),
            steps=visible_steps(opening.steps, subject=True),
            embedder=run.vectors,
            talk_answers=run.talk_answers,
            workspaces=run.workspaces,
            tree=(repository.tree or None) if repository else None,
            environment=repository.environment if repository else "",
        )
    )


def _cast(
    run: RunState,
    context: RunContext,
    opening: Transcript,
    programs: ProgramRunner,
    calls: EpisodeCalls,
    subject: ChatModel,
    make_subject: MakeSubject | None,
) -> Cast:
    spec, benchmark = context.spec, BENCHMARKS.load(context.spec.benchmark)
    simulator: ChatModel | None = None
    if context.simulator is not None:
        simulator = ReplayedModel(run.model(context.simulator, SIMULATOR), calls)
    request = CastRequest(
        setting=spec.setting,
        options=benchmark.options_of(spec, "episode"),
        problem=opening.problem,
        dialog=opening.dialog,
        subject=subject,
        simulator=simulator,
        sampling=benchmark.setting(spec.setting).bounded(spec.sampling),
        programs=programs,
        embedder=run.vectors,
        workspaces=run.workspaces,
        simulator_sampling=spec.simulator_sampling,
        make_subject=make_subject,
    )
    return benchmark.play.cast(request)


def _episode(context: RunContext, task: _Task, ending: Ending, started: str) -> Episode:
    spec, job, dialog = context.spec, task.job, task.dialog
    return Episode(
        episode_id=job.episode_id,
        run_id=context.run_id,
        benchmark=spec.benchmark,
        model=spec.label,
        setting=spec.setting,
        dataset_version=spec.dataset_version,
        problem_id=dialog.problem_id,
        dialog_id=dialog.dialog_id,
        row_digest=dialog.row_digest,
        sample=job.sample,
        seed=job.seed,
        attempt=job.attempt,
        stop_reason=ending.stop_reason,
        error=ending.error,
        started_at=started,
        finished_at=max(started, utc_now()),  # The machine's clock may have been set back.
        steps=ending.steps,
    )


@dataclass(frozen=True)
class _Ended:
    job: EpisodeJob
    ending: Ending
    episode: Episode
    n_run: int
    """Number of programs that were run for the episode."""

    @property
    def n_calls(self) -> int:
        """Number of requests that this attempt sent."""
        return (
            sum(step.n_calls for step in self.ending.steps[len(self.job.begun.steps) :])
            + self.ending.failed_calls
        )


def _write(shard: ConverseShard, played: list[_Ended]) -> ShardResult:
    name = _name(shard, ((p.job.episode_id, p.job.attempt) for p in played))
    if played:
        shard.context.write_part("episodes", [p.episode for p in played], name)
    faults = [p.ending for p in played if p.ending.stop_reason is StopReason.INFRA]
    return ShardResult(
        part=name,
        n_items=len(played),
        n_infra=len(faults),
        model_calls=sum(p.n_calls for p in played),
        n_run=sum(p.n_run for p in played),
        finished=tuple(
            p.job.episode_id for p in played if p.ending.stop_reason is not StopReason.INFRA
        ),
        error=faults[0].error if faults else None,
        permanent=bool(faults) and all(fault.permanent for fault in faults),
    )


def _name(shard: ConverseShard, episodes: Iterable[tuple[str, int]]) -> str:
    """Return the name of the shard's lease and Parquet part.

    Two attempts never share a name, so that neither replaces the other's part.
    """
    return content_id([shard.context.invocation, list(episodes)])
