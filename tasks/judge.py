"""Stage `judge`: judge a run's dialogues, on Dask workers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from schemas.content_id import content_id
from schemas.episode import Episode, by_episode
from schemas.lake.records import utc_now
from schemas.run import RubricJudge
from schemas.verdict import JudgeDriftAnswer, JudgeVerdict, TestVerdict
from tasks.driver.fan_out import SHARDS_IN_FLIGHT, closing_run, fan_out, living_workers
from tasks.driver.judging import Judgements, WantedJudgement, judge_shards
from tasks.judging.rubric import Judgement, Rubric, values_of
from tasks.planning.plan import RunPlan
from tasks.stage import Ahead, Stage, StageResult
from tasks.storage.journaling.leases import shard_attempt
from tasks.storage.paid_calls import read_calls
from tasks.worker.budget_meter import BudgetMeter
from tasks.worker.jobs import JudgeContext, JudgeJob, JudgeShard
from tasks.worker.judge_shard import DRIFT_SHARD, JUDGEMENTS, judge_shard, judgement_folder


@dataclass
class Judged(StageResult):
    """Result of the stage `judge`.

    If a cap of the budget stopped the stage, the judges' answers are in the log and not yet in the
    table.
    """

    rows: tuple[JudgeVerdict, ...] = ()
    due: frozenset[tuple[str, int, str, str]] = frozenset()
    """(episode id, turn, rubric, dimension) of every required judgement."""
    n_new: int = 0
    """Number of judgements that arrived in this invocation."""
    n_reused: int = 0
    """Number of judgements on the run's dialogues that were stored before."""
    new_rows: tuple[JudgeVerdict, ...] = field(default=(), repr=False)
    """One row per judgement that arrived in this invocation, with its cost."""


class JudgeStage(Stage[JudgeJob, JudgeShard, Judged]):
    """Stage `judge`. Its pending items are judgements that no run on the benchmark has stored.

    The stage writes `judge_verdicts`. Equal prompts to one judge are sent once, whichever episodes
    and runs need them.

    Args:
        reach: Prepares the judges, and returns their context with a Dask client. Called if
            something is pending.
        budget_meter: Meter that enforces the budget caps of the invocation; None without caps.
    """

    name = "judge"
    asks_models = True
    run_shard = staticmethod(judge_shard)

    def __init__(
        self,
        plan: RunPlan,
        judgements: Judgements,
        wanted: Sequence[WantedJudgement],
        reach: Callable[[], tuple[JudgeContext, Any]],
        budget_meter: BudgetMeter | None = None,
    ) -> None:
        super().__init__(plan, None, None, Judged(due=judgements.due(wanted)))
        self._judgements, self._wanted = judgements, wanted
        self._reach, self._budget_meter = reach, budget_meter

    def pending(self) -> list[JudgeJob]:
        pending = self._judgements.pending(self._wanted, self._judgements.known_judgements())
        self.result.is_cut = bool(pending and self._budget_meter and self._budget_meter.is_over)
        return [] if self.result.is_cut else pending

    def reach(self) -> None:
        self.context, self.client = self._reach()

    def shards(self, pending: Sequence[JudgeJob], n_workers: int) -> list[JudgeShard]:
        return judge_shards(self.context, pending, n_workers)

    def dealing(self, shards: Sequence[JudgeShard], n_workers: int) -> dict[str, Any]:
        # Some more shards than are in flight, so that no worker waits for the driver.
        return {"at_once": SHARDS_IN_FLIGHT + 8, "in_turn": True}

    def keep(self) -> None:
        plan, result = self.plan, self.result
        judgements, before = self._judgements.known_judgements(), self._judgements.earlier.keys()
        if result.is_cut:
            result.n_new = len(judgements.keys() - before)
            return
        result.rows = tuple(self._judgements.rows(self._wanted, judgements))
        by_id = {row.judgement_id: row for row in result.rows}
        result.new_rows = tuple(
            row for name, row in by_id.items() if name not in before and name in judgements
        )
        result.n_new, result.n_reused = len(result.new_rows), len(by_id.keys() & before)
        name = content_id(
            [
                len(result.rows),
                *(
                    (row.judgement_id, row.episode_id, row.turn, row.dimension)
                    for row in result.rows
                ),
            ]
        )
        plan.lake.write_part("judge_verdicts", result.rows, name, **plan.keys)
        plan.lake.keep_only("judge_verdicts", (name,), **plan.keys)
        self._judgements.remove_log()


class JudgeAhead(Ahead):
    """Early judging: judge finished dialogues while other dialogues are played.

    Only rubrics that read no test verdicts are judged early.
    """

    def __init__(
        self, plan: RunPlan, judgements: Judgements, context: JudgeContext, client: Any
    ) -> None:
        super().__init__(plan, client)
        self._judgements, self._context = judgements, context
        self._requested_ids = set(judgements.known_judgements())

    def begin(self, work: str) -> Any:
        wanted = self._judgements.wanted(self.episodes(work), {}, all_rubrics=False)
        jobs = tuple(self._judgements.pending(wanted, self._requested_ids))
        self._requested_ids.update(job.judgement_id for job in jobs)
        return (
            self.submit(judge_shard, JudgeShard(self._context, content_id([work]), jobs))
            if jobs
            else None
        )

    def rows(
        self, episodes: Sequence[Episode], verdicts: Iterable[TestVerdict]
    ) -> list[JudgeVerdict]:
        """Judge episodes by all rubrics, wait for the judges, and return the rows.

        A missing judgement becomes an infra fault.

        Args:
            verdicts: All test verdicts of these episodes.
        """
        wanted = self._judgements.wanted(episodes, by_episode(verdicts), all_rubrics=True)
        jobs = self._judgements.pending(wanted, self._judgements.known_judgements())
        shards = judge_shards(self._context, jobs, len(living_workers(self.client))) if jobs else []
        for future in [self.submit(judge_shard, shard) for shard in shards]:
            self.add(future.result())
        return list(self._judgements.rows(wanted, self._judgements.known_judgements()))


@contextmanager
def judging_ahead(
    plan: RunPlan, judgements: Judgements, context: JudgeContext, client: Any
) -> Iterator[JudgeAhead]:
    """Judge early during the block. At its end the workers close what they opened for that."""
    attempt = shard_attempt(plan.home.tries(context.key), context.invocation)
    with closing_run(client, context.key), attempt:
        with JudgeAhead(plan, judgements, context, client) as ahead:
            yield ahead


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
