"""Prefect task: scores of a run from its episodes and verdicts. Pure, in the driver."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow as pa
from prefect import task

from schemas.content_id import content_id
from schemas.episode import Episode
from schemas.score import Score
from schemas.verdict import TestVerdict
from tasks.benchmarks.contract import Played, ScoreRequest
from tasks.cache_policy import OPTIONS
from tasks.planning.plan import RunPlan


@task(name="score", task_run_name="score {title}", **OPTIONS)
def score(plan: RunPlan, episodes: Sequence[Episode], verdicts: Sequence[TestVerdict], title: str) -> tuple[Score, ...]:
    """Score every metric of every turn, or give the reason for a missing value. Replaces the run's scores in the lake."""
    scores = tuple(row for request in score_requests(plan, episodes, verdicts) for row in plan.benchmark.scores.score(request))
    name = content_id(scores)
    plan.lake.write_part("scores", scores, name, **plan.keys)
    plan.lake.keep_only("scores", (name,), **plan.keys)
    return scores


def score_requests(plan: RunPlan, episodes: Sequence[Episode], verdicts: Sequence[TestVerdict]) -> Iterator[ScoreRequest]:
    """One request for each problem and sample that has episodes, in the order of the dataset."""
    by_episode: dict[str, list[TestVerdict]] = defaultdict(list)
    for verdict in verdicts:
        by_episode[verdict.episode_id].append(verdict)
    existing = {episode.episode_id: episode for episode in episodes}
    played: dict[tuple[str, int], list[Played]] = defaultdict(list)
    for member in plan.members:
        episode = existing.get(member.episode_id)
        if episode is not None:
            one = Played(member.dialog, episode, tuple(by_episode[episode.episode_id]))
            played[member.dialog.problem_id, member.sample].append(one)
    for (problem_id, sample), ones in played.items():
        problem, options = plan.problems[problem_id], plan.options
        yield ScoreRequest(problem, sample, plan.run_id, plan.spec.setting, options, tuple(ones))


def verdict_rows(plan: RunPlan) -> pa.Table:
    """The run's verdicts as they lie in the lake."""
    return plan.lake.read_arrow("test_verdicts", plan.lake.parts("test_verdicts", **plan.keys))
