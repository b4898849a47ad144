"""Repetition of fixed prompts every night, to measure the judges' drift (`judge_drift`)."""

from collections.abc import Iterator, Mapping
from typing import Any

from schemas.content_id import content_id
from schemas.lake.records import utc_now
from schemas.run import RubricJudge
from schemas.verdict import JudgeDriftAnswer
from tasks.driver.fan_out import fan_out
from tasks.judging.judgement import Judgement, values_of
from tasks.judging.rubric import Rubric
from tasks.planning.plan import RunPlan
from tasks.storage.journaling.leases import shard_attempt
from tasks.storage.paid_calls import read_calls
from tasks.worker.jobs import JudgeContext, JudgeJob, JudgeShard
from tasks.worker.judge_shard import DRIFT_SHARD, JUDGEMENTS, judge_shard, judgement_folder


def ask_drift(plan: RunPlan, context: JudgeContext, client: Any, night_id: str) -> int:
    """Send the drift cases (fixed prompts) of the run's rubrics, once a night for each judge.

    Returns:
        Number of requests. A drift case without an answer, because of a fault of the service, has
        no row.
    """
    answered_ids = {
        part.stem.removeprefix("part-")
        for part in plan.lake.parts("judge_drift_answers", night_id=night_id)
    }
    pending: dict[str, tuple[Rubric, RubricJudge, tuple[JudgeJob, ...]]] = {}
    for rubric in plan.benchmark.rubrics(plan.spec.setting):
        judge = plan.judges[rubric.name].judge
        name = content_id([plan.spec.benchmark, judge])
        if rubric.drift and name not in answered_ids:
            pending[name] = rubric, judge, tuple(_jobs(plan, rubric, judge, night_id))
    if not pending:
        return 0
    shards = [
        JudgeShard(context, f"{DRIFT_SHARD}{name}", jobs) for name, (_, _, jobs) in pending.items()
    ]
    with shard_attempt(plan.home.tries(context.key), context.invocation):
        results, _ = fan_out(client, judge_shard, shards)
    judgements = read_calls(judgement_folder(context), JUDGEMENTS)
    for name, (rubric, judge, jobs) in pending.items():
        rows = list(_rows(plan, rubric, judge, judgements, jobs, night_id))
        plan.lake.write_part("judge_drift_answers", rows, name, night_id=night_id)
    return sum(result.model_calls for result in results)


def _jobs(plan: RunPlan, rubric: Rubric, judge: RubricJudge, night_id: str) -> Iterator[JudgeJob]:
    for number, messages in enumerate(rubric.drift):
        name = content_id([plan.spec.benchmark, judge, night_id, number])
        yield JudgeJob(
            name, rubric.name, rubric.with_form(messages), f"drift/{number}", turn=0, sample=0
        )


def _rows(
    plan: RunPlan,
    rubric: Rubric,
    judge: RubricJudge,
    judgements: Mapping[str, Judgement],
    jobs: tuple[JudgeJob, ...],
    night_id: str,
) -> Iterator[JudgeDriftAnswer]:
    for number, job in enumerate(jobs):
        judgement = judgements.get(job.judgement_id)
        if judgement is None:
            continue
        for dimension, value, label, reason in values_of(rubric, judgement):
            yield JudgeDriftAnswer(
                night_id=night_id,
                asked_at=utc_now(),
                judge=judge.judge.label,
                revision=judge.judge.revision,
                rubric=f"{plan.spec.benchmark}.{rubric.name}",
                rubric_version=rubric.version,
                case_number=number,
                dimension=dimension,
                value=value,
                label=label,
                unscored_reason=reason,
            )
