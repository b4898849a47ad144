"""Prefect task: scores of a run from its episodes and verdicts. Pure, in the driver."""

from collections import defaultdict
from collections.abc import Sequence

import pyarrow as pa
from prefect import task

from schemas.content_id import content_id
from schemas.episode import Episode
from schemas.score import Score
from schemas.verdict import TestVerdict
from tasks.cache_policy import OPTIONS
from tasks.planning.plan import RunPlan


@task(name="score", task_run_name="score {title}", **OPTIONS)
def score(plan: RunPlan, episodes: Sequence[Episode], verdicts: Sequence[TestVerdict], title: str) -> tuple[Score, ...]:
    """Every metric of every turn; what cannot be scored has a reason. Replaces the run's scores in the lake."""
    by_episode: dict[str, list[TestVerdict]] = defaultdict(list)
    for verdict in verdicts:
        by_episode[verdict.episode_id].append(verdict)
    scores = tuple(
        row
        for episode in episodes
        for row in plan.benchmark.score(
            plan.problems[episode.row_digest],
            plan.dialogs[episode.row_digest],
            episode,
            by_episode[episode.episode_id],
            plan.run_id,
        )
    )
    name = content_id(scores)
    plan.lake.write_part("scores", scores, name, **plan.keys)
    plan.lake.keep_only("scores", (name,), **plan.keys)
    return scores


def verdict_rows(plan: RunPlan) -> pa.Table:
    """The run's verdicts as they lie in the lake."""
    return plan.lake.read_arrow("test_verdicts", plan.lake.parts("test_verdicts", **plan.keys))
