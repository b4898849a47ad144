"""Prefect task: scores of a run from its episodes and verdicts. Pure, in the driver."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
from prefect import task

from schemas.content_id import content_id
from schemas.episode import Episode
from schemas.score import Score
from schemas.verdict import JudgeVerdict, TestVerdict
from tasks.benchmarks.contract import Played, ScoreRequest
from tasks.cache_policy import OPTIONS
from tasks.planning.plan import RunPlan
from tasks.storage.audited import verdict_table
from tasks.storage.contexts import context_of

if TYPE_CHECKING:
    from tasks.language.embedding import Vector


@task(name="score", task_run_name="score {title}", **OPTIONS)
def score(
    plan: RunPlan,
    episodes: Sequence[Episode],
    verdicts: Sequence[TestVerdict],
    title: str,
    judged: Sequence[JudgeVerdict] = (),
    vectors: "Mapping[str, Vector]" = MappingProxyType({}),
) -> tuple[Score, ...]:
    """Score every metric of every turn, or give the reason for a missing value. Replaces the run's scores in the lake."""
    requests = score_requests(plan, episodes, verdicts, judged, vectors)
    scores = tuple(row for request in requests for row in plan.benchmark.scores.score(request))
    name = content_id(scores)
    plan.lake.write_part("scores", scores, name, **plan.keys)
    plan.lake.keep_only("scores", (name,), **plan.keys)
    return scores


def score_requests(
    plan: RunPlan,
    episodes: Sequence[Episode],
    verdicts: Sequence[TestVerdict],
    judged: Sequence[JudgeVerdict] = (),
    vectors: "Mapping[str, Vector]" = MappingProxyType({}),
) -> Iterator[ScoreRequest]:
    """One request for each problem and sample that has episodes, in the order of the dataset."""
    by_episode: dict[str, list[TestVerdict]] = defaultdict(list)
    for verdict in verdicts:
        by_episode[verdict.episode_id].append(verdict)
    judgements: dict[str, list[JudgeVerdict]] = defaultdict(list)
    for judgement in judged:
        judgements[judgement.episode_id].append(judgement)
    existing = {episode.episode_id: episode for episode in episodes}
    played: dict[tuple[str, int], list[Played]] = defaultdict(list)
    for member in plan.members:
        episode = existing.get(member.episode_id)
        if episode is not None:
            name = episode.episode_id
            context = context_of(plan.lake, member.dialog)
            one = Played(member.dialog, episode, tuple(by_episode[name]), tuple(judgements[name]), context)
            played[member.dialog.problem_id, member.sample].append(one)
    for (problem_id, sample), ones in played.items():
        problem, options = plan.problems[problem_id], plan.options
        yield ScoreRequest(problem, sample, plan.run_id, plan.spec.setting, options, tuple(ones), vectors)


def plain_verdict_rows(plan: RunPlan) -> pa.Table:
    """The run's verdicts as they lie in the lake: what the tests themselves said."""
    return plan.lake.read_arrow("test_verdicts", plan.lake.parts("test_verdicts", **plan.keys))


def verdict_rows(plan: RunPlan) -> pa.Table:
    """The run's verdicts; a pass that the audit convicted is failed."""
    return verdict_table(plan.lake, **plan.keys)
