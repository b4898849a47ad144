"""Scores of a run from its episodes and verdicts, computed in the driver."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from schemas.content_id import rows_id
from schemas.episode import Episode, Score, by_episode
from schemas.grouping import grouped
from schemas.lake.rows import PackedRows
from schemas.verdict import JudgeVerdict, TestVerdict
from tasks.benchmarks.contract import Played, ScoreRequest
from tasks.driver.fan_out import even_shards
from tasks.planning.plan import RunPlan
from tasks.storage.staged_rows import context_of

if TYPE_CHECKING:
    from tasks.language.embedding import Vector

_REQUESTS = 200
"""Number of requests whose episodes and verdicts are in memory together."""


def score(
    plan: RunPlan,
    episodes: PackedRows[Episode],
    verdicts: PackedRows[TestVerdict],
    judged: Sequence[JudgeVerdict] = (),
    vectors: "Mapping[str, Vector]" = MappingProxyType({}),
) -> PackedRows[Score]:
    """Score every metric of every turn, or store the reason for a missing value.

    The scores replace the run's earlier ones in the lake.

    Args:
        plan: Plan of the run.
        episodes: Finished episodes of the run.
        verdicts: Verdicts after the audit.
        judged: Judgements of the run.
        vectors: Vector of each text that the benchmark's scores compare.
    """
    scores = PackedRows[Score]("scores")

    def rows() -> Iterator[Score]:
        for request in score_requests(plan, episodes, verdicts, judged, vectors):
            for row in plan.benchmark.scores.score(request):
                scores.append(row)
                yield row

    name = rows_id(rows())
    plan.lake.write_pieces("scores", scores.tables(), name, **plan.keys)
    plan.lake.keep_only("scores", (name,), **plan.keys)
    return scores


def score_requests(
    plan: RunPlan,
    episodes: PackedRows[Episode],
    verdicts: PackedRows[TestVerdict],
    judged: Sequence[JudgeVerdict] = (),
    vectors: "Mapping[str, Vector]" = MappingProxyType({}),
) -> Iterator[ScoreRequest]:
    """Yield one request per problem and sample with episodes, in the order of the dataset."""
    judgements, options = by_episode(judged), plan.options
    episode_ids = episodes.table(["episode_id"])["episode_id"]
    episode_at = {name: at for at, name in enumerate(episode_ids.to_pylist())}
    tested_ids = verdicts.table(["episode_id"])["episode_id"].to_pylist()
    verdicts_at = grouped((name, at) for at, name in enumerate(tested_ids))
    members = plan.members.among(episode_ids)
    columns = (members.rows[name].to_pylist() for name in ("problem_id", "sample"))
    groups = grouped((key, at) for at, key in enumerate(zip(*columns, strict=True)))
    for some in even_shards(groups.items(), _REQUESTS):
        chosen = members.take([at for _, places in some for at in places])
        ids, rest = chosen.ids.to_pylist(), iter(chosen)
        played = iter(episodes.take([episode_at[name] for name in ids]))
        decided = by_episode(
            verdicts.take([at for name in ids for at in verdicts_at.get(name, ())])
        )
        for (problem_id, sample), places in some:
            items = tuple(
                Played(
                    dialog,
                    next(played),
                    tuple(decided.get(member.episode_id, ())),
                    tuple(judgements.get(member.episode_id, ())),
                    context_of(plan.lake, dialog),
                )
                for member in islice(rest, len(places))
                for dialog in [plan.dialog(member)]
            )
            yield ScoreRequest(
                plan.problems[problem_id],
                sample,
                plan.run_id,
                plan.spec.setting,
                options,
                items,
                vectors,
            )


def plain_verdict_rows(plan: RunPlan) -> pa.Table:
    """Return the run's verdicts as the tests gave them, without changes by the audit."""
    return plan.lake.read_arrow("test_verdicts", plan.lake.parts("test_verdicts", **plan.keys))
