"""Account of an invocation: reused and paid work, from the lake's state before and after it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import pyarrow as pa

from schemas.dialog import Role
from schemas.episode import Step, StepKind
from schemas.lake.records import RunRecord
from schemas.night.cost import RoleCost, sum_usd
from schemas.night.work import Difference, RequestCounts, RunWork
from schemas.verdict import JudgeVerdict
from tasks.planning.participants.models import role_cost
from tasks.planning.plan import RunPlan
from tasks.planning.version import parley_version
from tasks.planning.why_rerun import compare, digests_by_dialog, rerun_reasons
from tasks.storage.journaling.dialogue_calls import read_unfinished
from tasks.storage.parquet_store import listing_again


def account_at_start(plan: RunPlan, before: RunRecord | None) -> RunWork:
    """Return the account of an invocation that has not worked on the run yet.

    It counts the finished episodes, and contains the reasons why others are pending.

    Args:
        plan: plan of the run.
        before: record of the run's previous invocation; None for a new run.
    """
    reused = Counter(plan.episodes.finished(plan.members.ids).values()).most_common()
    compared_with, why = _reasons(plan, before)
    return empty_account(plan).model_copy(
        update={
            "n_reused": sum(n for _, n in reused),
            "reused_from": tuple(reused),
            "compared_with": compared_with,
            "why": why,
        }
    )


def _reasons(plan: RunPlan, before: RunRecord | None) -> tuple[str | None, tuple[Difference, ...]]:
    """Return the run that this one is compared with, and the reasons why work is pending."""
    outside = {**plan.state(), "parley_version": parley_version()}
    if before is not None:
        return plan.run_id, rerun_reasons(before, plan.spec, outside, len(plan.pending()))
    other = _latest_similar(plan)
    if other is None:
        return None, ()
    rows = digests_by_dialog(plan.dataset)
    return other.run_id, compare(plan.lake, other, plan.spec, outside, rows)


def _latest_similar(plan: RunPlan) -> RunRecord | None:
    """Return the latest other run with the model name and setting of this run."""
    records = plan.lake.read(
        "runs", RunRecord, benchmark=plan.spec.benchmark, model=plan.spec.label
    )
    others = [r for r in records if r.setting == plan.spec.full_setting and r.run_id != plan.run_id]
    return max(others, key=lambda r: r.finished_at, default=None)


def empty_account(plan: RunPlan) -> RunWork:
    """Return an account of no work. It leaves out reused episodes and reasons."""
    return RunWork(
        run_id=plan.run_id,
        title=plan.request.title,
        setting=plan.spec.full_setting,
        model=plan.spec.label,
        status="incomplete",
        n_episodes=len(plan.members),
        n_reused=0,
        requests=RequestCounts(),
    )


def with_begun(
    work: RunWork, begun: AbstractSet[str], stored: Mapping[str, Sequence[Step]]
) -> RunWork:
    """Add the numbers of resumed episodes, of their stored answers, and of new episodes.

    Args:
        work: account of the run.
        begun: episodes that were played in this invocation, finished or not.
        stored: maps each resumed episode to its stored steps of earlier attempts.
    """
    answers = [
        step for steps in stored.values() for step in steps if step.n_calls or _is_answer(step)
    ]
    return work.model_copy(
        update={
            "n_resumed": len(stored),
            "n_turns_kept": len(answers),
            "n_new": len(begun - stored.keys()),
        }
    )


def _is_answer(step: Step) -> bool:
    return step.kind is StepKind.MESSAGE and step.role is Role.ASSISTANT and not step.is_scripted


def begun_episodes(plan: RunPlan, pending: AbstractSet[str]) -> frozenset[str]:
    """Return the episodes, `pending` at the start, that have finished or have journaled steps."""
    still = set(plan.pending().ids.to_pylist())
    begun = read_unfinished(plan.home.journal(plan.run_id), still)
    return frozenset((pending - still) | begun.keys())


def with_episodes(
    work: RunWork,
    plan: RunPlan,
    pending: AbstractSet[str],
    kept: Mapping[str, Sequence[Step]],
    model_calls: int,
    judgements: Sequence[JudgeVerdict] = (),
) -> RunWork:
    """Add the episodes that were played, their cost, and the cost of judgements.

    Args:
        work: account of the run.
        plan: plan of the run.
        pending: episodes that were unfinished at the start of the invocation.
        kept: maps each resumed episode to its stored steps of earlier attempts.
        model_calls: number of requests that workers reported. For a dead worker, the answers in its
            journal are counted.
        judgements: a row for each judgement that was made in this invocation.
    """
    new = listing_again(lambda: paid_steps(plan.episodes.chosen(pending).pieces(), kept))
    tokens_in, tokens_out, unknown = _tokens(new)
    usd = sum_usd((*_player_costs(plan, new), *_judge_costs(plan, judgements)))
    if model_calls and not new:  # Refused answers, for example, leave no step that has tokens.
        unknown, usd = model_calls, None
    return with_begun(work, pending, kept).model_copy(
        update={
            "model_calls": max(model_calls, sum(step["n_calls"] for step in new)),
            "input_tokens": tokens_in,
            "output_tokens": tokens_out,
            "n_unknown_tokens": unknown,
            "usd": usd,
        }
    )


def with_judgements(
    work: RunWork,
    plan: RunPlan,
    judgements: Sequence[JudgeVerdict],
    n_reused: int,
    model_calls: int,
) -> RunWork:
    """Add the requested judgements and their tokens.

    Args:
        work: account of the run.
        plan: plan of the run.
        judgements: a row for each judgement that was made in this invocation.
        n_reused: number of judgements that were stored before.
        model_calls: number of requests that workers reported for judgements.
    """
    tokens_in, tokens_out, unknown = _tokens(_judged_rows(judgements))
    return work.model_copy(
        update={
            "judgements_asked": len(judgements),
            "judgements_reused": n_reused,
            "model_calls": work.model_calls
            + max(model_calls, sum(row.n_calls for row in judgements)),
            "input_tokens": work.input_tokens + tokens_in,
            "output_tokens": work.output_tokens + tokens_out,
            "n_unknown_tokens": work.n_unknown_tokens + unknown,
        }
    )


def paid_steps(
    pieces: Iterable[pa.Table], kept: Mapping[str, Sequence[Step]]
) -> list[dict[str, Any]]:
    """Return the steps that this invocation paid for: role, number of calls and tokens.

    Args:
        pieces: Rows of `episodes`, in pieces because all rows together may be gigabytes.
        kept: Map from each resumed episode to its steps of earlier attempts, which are left out.
    """
    return [step for rows in pieces for step in _new_steps(rows, kept) if step["n_calls"] > 0]


def _new_steps(rows: pa.Table, kept: Mapping[str, Sequence[Step]]) -> Iterator[dict[str, Any]]:
    steps = rows["steps"].combine_chunks()
    every = steps.flatten()
    facts = pa.table(
        {name: every.field(name) for name in ("role", "n_calls", "input_tokens", "output_tokens")}
    ).to_pylist()
    end = 0
    for episode_id, n_steps in zip(
        rows["episode_id"].to_pylist(), steps.value_lengths().to_pylist(), strict=True
    ):
        yield from facts[end + len(kept.get(episode_id, ())) : end + n_steps]
        end += n_steps


def _tokens(steps: list[dict[str, Any]]) -> tuple[int, int, int]:
    unknown = sum(step["input_tokens"] is None or step["output_tokens"] is None for step in steps)
    return (
        sum(s["input_tokens"] or 0 for s in steps),
        sum(s["output_tokens"] or 0 for s in steps),
        unknown,
    )


def _player_costs(plan: RunPlan, steps: list[dict[str, Any]]) -> Iterator[RoleCost]:
    """Yield the cost of subject and simulator, if they answered."""
    models = {model.role: model for model in plan.models if model.role != "judge"}
    for role, is_user in (("subject", False), ("simulator", True)):
        if own := [step for step in steps if (step["role"] == Role.USER.value) == is_user]:
            model = models.get(role)
            yield role_cost(plan.lake, model, _tokens(own)) if model else RoleCost(None)


def _judge_costs(plan: RunPlan, judgements: Sequence[JudgeVerdict]) -> Iterator[RoleCost]:
    """Yield the cost of each rubric's judge that answered."""
    for rubric, judge in plan.judges.items():
        if own := _judged_rows([row for row in judgements if row.rubric == rubric]):
            yield role_cost(plan.lake, judge, _tokens(own))


def _judged_rows(judgements: Sequence[JudgeVerdict]) -> list[dict[str, Any]]:
    return [
        row.model_dump(include={"input_tokens", "output_tokens"})
        for row in judgements
        if row.n_calls
    ]
