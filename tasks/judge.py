"""Prefect task: have a run's dialogues judged, on Dask workers."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prefect import task

from schemas.content_id import content_id
from schemas.endpoint_profile import EndpointProfile
from schemas.verdict import JudgeVerdict
from tasks.cache_policy import OPTIONS
from tasks.driver.fan_out import closing_run, fan_out, living_workers
from tasks.driver.judging import JUDGE_SHARDS_AT_ONCE, Judgements, Wanted, judge_shards
from tasks.judging.judgement import Judgement
from tasks.planning.participants.found_profiles import join_profiles
from tasks.planning.plan import RunPlan
from tasks.storage.journaling.segments import remove_segments
from tasks.worker.jobs import JudgeContext, JudgeResult
from tasks.worker.judge_shard import judge_shard, state_key
from tasks.worker.purse import Purse

MAX_ATTEMPTS = 3
"""Attempts at a judgement in one night, where faults of the service end it."""
_RETRY_DELAY_S = 2.0


@dataclass
class Judged:
    """The stage's results."""

    rows: tuple[JudgeVerdict, ...] = ()
    due: frozenset[tuple[str, int, str, str]] = frozenset()
    """(episode id, turn, rubric, dimension) of every judgement that the run must have."""
    model_calls: int = 0
    n_asked: int = 0
    """Judgements that came in this invocation."""
    n_reused: int = 0
    """Judgements on the run's dialogues that were known already."""
    error: str | None = None
    is_permanent: bool = False
    """Asking again cannot help against the faults that are left."""
    profiles: dict[str, EndpointProfile] = field(default_factory=dict[str, EndpointProfile])
    """Role -> what the workers found out about its endpoint."""
    is_cut: bool = False
    """A cap of the budget stopped it. All answers lie beside the tables."""
    asked: tuple[JudgeVerdict, ...] = field(default=(), repr=False)
    """One row of each judgement that came in this invocation: what it cost."""


@task(name="judge", task_run_name="judge {title}", **OPTIONS)
def judge(
    plan: RunPlan,
    judgements: Judgements,
    wanted: Sequence[Wanted],
    reach: Callable[[], tuple[JudgeContext, Any]],
    title: str,
    on_result: Callable[[JudgeResult], None] = lambda _: None,
    purse: Purse | None = None,
) -> Judged:
    """Ask for every wanted judgement that is not known, each at most three times where infra ends it. Writes `judge_verdicts`.

    Equal prompts to one judge are asked once, whichever episodes and runs want them.

    Args:
        reach: makes the judges ready, and gives the Dask client that they are asked through. Called where something is owed.
        purse: the caps of the invocation.
    """
    done, before, known = (
        Judged(due=judgements.due(wanted)),
        judgements.earlier.keys(),
        judgements.known(),
    )
    if judgements.owed(wanted, known) and purse and purse.is_over:
        done.is_cut = True
    elif judgements.owed(wanted, known):
        known = _asked(plan, judgements, wanted, known, reach(), done, on_result)
    if done.is_cut:
        done.n_asked = len(known.keys() - before)
        return done
    done.rows = tuple(judgements.rows(wanted, known))
    by_id = {row.judgement_id: row for row in done.rows}
    done.asked = tuple(row for name, row in by_id.items() if name not in before and name in known)
    done.n_asked, done.n_reused = len(done.asked), len(by_id.keys() & before)
    name = content_id(
        [
            len(done.rows),
            *((row.judgement_id, row.episode_id, row.turn, row.dimension) for row in done.rows),
        ]
    )
    plan.lake.write_part("judge_verdicts", done.rows, name, **plan.keys)
    plan.lake.keep_only("judge_verdicts", (name,), **plan.keys)
    remove_log(plan, judgements)
    return done


def _asked(
    plan: RunPlan,
    judgements: Judgements,
    wanted: Sequence[Wanted],
    known: Mapping[str, Judgement],
    reached: tuple[JudgeContext, Any],
    done: Judged,
    on_result: Callable[[JudgeResult], None],
) -> Mapping[str, Judgement]:
    """All that is known after asking for what is owed; what it took is added to `done`."""
    context, client = reached
    with closing_run(client, state_key(plan.run_id)):
        for attempt in range(MAX_ATTEMPTS):
            owed = judgements.owed(wanted, known)
            if not owed:
                break
            if attempt:
                time.sleep(_RETRY_DELAY_S * 2**attempt)
            shards = judge_shards(context, owed, len(living_workers(client)), secrets.token_hex(4))
            results, lost = fan_out(
                client, judge_shard, shards, on_result, at_once=JUDGE_SHARDS_AT_ONCE, in_turn=True
            )
            known = judgements.known()
            for result in results:
                join_profiles(done.profiles, result.profiles)
            done.model_calls += sum(result.model_calls for result in results)
            done.error = next(
                (r.error for r in results if r.error), "a worker process died" if lost else None
            )
            done.is_cut = any(result.n_cut for result in results)
            faulty = [result for result in results if result.n_infra]
            done.is_permanent = (
                bool(faulty) and not lost and all(result.permanent for result in faulty)
            )
            if done.is_cut:
                break
            if not lost and (
                all(r.n_infra == r.n_jobs for r in results)
                or (faulty and all(r.permanent for r in faulty))
            ):
                break
    return known


def remove_log(plan: RunPlan, judgements: Judgements) -> None:
    """Remove the judgements that the lake now holds."""
    for mark in judgements.folder.glob("*.begun"):
        mark.unlink(missing_ok=True)
    remove_segments(judgements.folder)
