"""Judgements that a run needs: stored judgements, pending judgements, and their shards."""

import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from schemas.content_id import content_id
from schemas.episode import Episode, StopReason, UnscoredReason, by_episode
from schemas.errors import ParleyError, SchemaMismatch
from schemas.lake.rows import from_arrow
from schemas.run import ModelEndpoint, ModelIdentity
from schemas.verdict import JudgeVerdict, TestVerdict
from tasks.benchmarks.advanced import JudgeRequest
from tasks.driver.fan_out import dealt_shards, shard_size
from tasks.judging.rubric import STORED_FIELDS, Judgement, Rubric, id_of, verdicts_of
from tasks.planning.participants.models import access_in_worker
from tasks.planning.plan import RunPlan
from tasks.storage.journaling.segments import remove_segments
from tasks.storage.paid_calls import read_calls
from tasks.storage.run_rows import read_verdicts
from tasks.storage.staged_rows import context_of
from tasks.worker.budget_meter import BudgetMeter
from tasks.worker.call_log import CallLog
from tasks.worker.jobs import JudgeContext, JudgeJob, JudgeShard
from tasks.worker.judge_shard import JUDGEMENTS


@dataclass(frozen=True)
class WantedJudgement:
    """Judgement that an episode needs, stored or pending."""

    job: JudgeJob
    episode: Episode


def judge_context(
    plan: RunPlan,
    *,
    workers: int,
    served: Mapping[ModelIdentity, ModelEndpoint] = MappingProxyType({}),
    budget_meter: BudgetMeter | None = None,
    calls: CallLog | None = None,
) -> JudgeContext:
    """Return the context that all shards of the run's judgements share.

    The concurrency of each endpoint is divided by the number of worker processes.

    Args:
        served: Endpoints of the models that this machine serves for the run.
        budget_meter: Meter that enforces the budget caps of the invocation; None without caps.
        calls: Log of model calls, for metrics.
    """
    rubrics = plan.benchmark.rubrics(plan.spec.setting)
    return JudgeContext(
        home=str(plan.home.path),
        invocation=secrets.token_hex(8),
        spec=plan.spec,
        judges={
            rubric: access_in_worker(plan.models, judge.access, served, workers)
            for rubric, judge in plan.judges.items()
        },
        fsync=plan.request.fsync,
        budget_meter=budget_meter,
        lake=plan.home.lake_at,
        reworded=frozenset(rubric.name for rubric in rubrics if rubric.is_reworded),
        calls=calls,
    )


class Judgements:
    """Stored and pending judgements of one run, in the driver. It sends no request."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self.folder = plan.home.judgements(plan.run_id)
        """Folder of the judgements that are in no table yet."""
        self._rubrics = plan.benchmark.rubrics(plan.spec.setting)

    @cached_property
    def earlier(self) -> Mapping[str, Judgement]:
        """Judgements in the lake, from all runs on this benchmark. Unreadable parts are skipped."""
        return {name: judgement for name, (judgement, _) in self._stored.items()}

    @cached_property
    def paid_elsewhere(self) -> frozenset[str]:
        """Ids of the judgements in the lake that other runs paid for."""
        return frozenset(name for name, (_, is_own) in self._stored.items() if not is_own)

    @cached_property
    def _stored(self) -> Mapping[str, tuple[Judgement, bool]]:
        """Map each judgement id to (judgement, True if this run paid for it)."""
        plan, judges = (
            self._plan,
            {judge.access.label for judge in self._plan.judges.values()},
        )
        own = plan.lake.folder("judge_verdicts", **plan.keys)
        judgements: dict[str, tuple[Judgement, bool]] = {}
        for part in plan.lake.parts("judge_verdicts", benchmark=plan.spec.benchmark):
            # Another run's driver replaced the part meanwhile, or it is damaged: ask again.
            with suppress(FileNotFoundError, SchemaMismatch):
                rows = plan.lake.read_arrow(
                    "judge_verdicts", [part], [*STORED_FIELDS, "judge", "is_reused"]
                ).to_pylist()
                for row in rows:
                    if row["answer_json"] is not None and row["judge"] in judges:
                        name, fields = (
                            row["judgement_id"],
                            {field: row[field] for field in STORED_FIELDS}
                            | {"unscored_reason": None},
                        )
                        is_own = (part.parent == own and not row["is_reused"]) or judgements.get(
                            name, (None, False)
                        )[1]
                        judgements[name] = (Judgement.model_validate(fields), is_own)
        return judgements

    def known_judgements(self) -> Mapping[str, Judgement]:
        """Return all stored judgements by id: those in the lake, and this run's log."""
        return {**self.earlier, **read_calls(self.folder, JUDGEMENTS)}

    def remove_log(self) -> None:
        """Remove the judgements that the lake now holds."""
        remove_segments(self.folder)

    def wanted(
        self,
        episodes: Iterable[Episode],
        verdicts: Mapping[str, Sequence[TestVerdict]],
        *,
        all_rubrics: bool,
    ) -> list[WantedJudgement]:
        """Return the judgements that episodes need, stored or pending.

        Args:
            verdicts: Test verdicts by episode. Empty if the tests have not run yet.
            all_rubrics: If False, rubrics that read verdicts are left out.
        """
        rubrics = [rubric for rubric in self._rubrics if all_rubrics or not rubric.reads_verdicts]
        return [
            judgement
            for episode in episodes
            for rubric in rubrics
            for judgement in self._of(episode, rubric, verdicts)
        ]

    def _of(
        self, episode: Episode, rubric: Rubric, verdicts: Mapping[str, Sequence[TestVerdict]]
    ) -> Iterator[WantedJudgement]:
        plan, judging = self._plan, self._plan.benchmark.judging
        if judging is None or episode.stop_reason is StopReason.INFRA:
            return
        judge = plan.judges[rubric.name].judge
        dialog = plan.dialogs[episode.row_digest]
        request = JudgeRequest(
            rubric=rubric.name,
            problem=plan.problems[episode.problem_id],
            dialog=dialog,
            episode=episode,
            options=plan.options,
            context=context_of(plan.lake, dialog),
            verdicts=verdicts.get(episode.episode_id, ()) if rubric.reads_verdicts else (),
        )
        for run in judging.judge_runs(request):
            if run.rubric != rubric.name:
                raise ParleyError(
                    f"{plan.spec.benchmark}: asked for judgements of {rubric.name!r}, "
                    f"got a judgement of {run.rubric!r}"
                )
            messages = rubric.with_form(run.messages)
            name = id_of(messages, judge.judge, judge.sampling)
            place = (episode.problem_id, run.turn, episode.sample, episode.dialog_id)
            yield WantedJudgement(JudgeJob(name, rubric.name, messages, *place), episode)

    def pending(
        self, wanted: Iterable[WantedJudgement], known_ids: Collection[str]
    ) -> list[JudgeJob]:
        """Return the judgements to request. Equal judgements of several episodes appear once."""
        jobs = {
            judgement.job.judgement_id: judgement.job
            for judgement in reversed(list(wanted))
            if judgement.job.judgement_id not in known_ids
        }
        return list(reversed(jobs.values()))

    def due(self, wanted: Iterable[WantedJudgement]) -> frozenset[tuple[str, int, str, str]]:
        """Return (episode id, turn, rubric, dimension) of each required row of `judge_verdicts`."""
        dimensions = {rubric.name: rubric.dimensions for rubric in self._rubrics}
        return frozenset(
            (judgement.episode.episode_id, judgement.job.turn, judgement.job.rubric, dimension)
            for judgement in wanted
            for dimension in dimensions[judgement.job.rubric]
        )

    def rows(
        self, wanted: Iterable[WantedJudgement], judgements: Mapping[str, Judgement]
    ) -> Iterator[JudgeVerdict]:
        """Yield the rows of `judge_verdicts`. A missing judgement becomes an infra fault."""
        spec = self._plan.spec
        rubrics = {rubric.name: rubric for rubric in self._rubrics}
        first: set[str] = set()
        for item in wanted:
            name = item.job.judgement_id
            judgement = judgements.get(name) or Judgement(
                judgement_id=name, unscored_reason=UnscoredReason.INFRA
            )
            about = {
                "run_id": self._plan.run_id,
                "benchmark": spec.benchmark,
                "model": spec.label,
                "episode_id": item.episode.episode_id,
                "problem_id": item.episode.problem_id,
                "sample": item.episode.sample,
                "turn": item.job.turn,
            }
            judge = self._plan.judges[item.job.rubric].access.label
            is_reused = name in self.paid_elsewhere or name in first
            yield from verdicts_of(
                rubrics[item.job.rubric], judge, judgement, about, is_reused=is_reused
            )
            first.add(name)


def pending_judgements(plan: RunPlan) -> list[JudgeJob]:
    """Return the pending judgements on a run's finished dialogues, each once.

    Unfinished dialogues are left out. A rubric that reads verdicts uses the stored verdicts. If
    tests are still pending, their verdicts lead to another judgement later.
    """
    if not plan.judges:
        return []
    judgements = Judgements(plan)
    episodes = from_arrow(plan.episodes.rows(plan.members.ids), Episode)
    verdicts = by_episode(read_verdicts(plan.lake, **plan.keys))
    return judgements.pending(
        judgements.wanted(episodes, verdicts, all_rubrics=True), judgements.known_judgements()
    )


def judgements_of(plan: RunPlan) -> frozenset[str]:
    """Return a text for each of the run's judges: `judgements of BENCHMARK by JUDGE`.

    Two runs with a common text may need the same judgements.
    """
    return frozenset(
        f"judgements of {plan.spec.benchmark} by {judge.access.label}"
        for judge in plan.judges.values()
    )


def judge_shards(
    context: JudgeContext, jobs: Sequence[JudgeJob], n_workers: int
) -> list[JudgeShard]:
    """Return small shards, with equal numbers of judgements per worker and new unique names."""
    attempt = secrets.token_hex(4)
    widest = max((judge.policy.concurrency for judge in context.judges.values()), default=1)
    dealt = dealt_shards(jobs, shard_size(widest, len(jobs), len(jobs), n_workers), n_workers)
    return [
        JudgeShard(context, content_id([attempt, [job.judgement_id for job in group]]), group)
        for group in dealt
    ]
