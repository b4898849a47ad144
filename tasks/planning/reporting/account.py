"""Accounts for an invocation: finished episodes found and work paid for, counted from the lake before and after."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from schemas.dialog import Role
from schemas.episode import Step, StepKind
from schemas.lake.records import RunRecord
from schemas.night.cost import RoleCost, sum_usd
from schemas.night.requests import RequestCounts
from schemas.night.work import Difference, RunWork
from schemas.verdict import JudgeVerdict
from tasks.planning.participants.models import role_cost
from tasks.planning.plan import RunPlan
from tasks.planning.version import parley_version
from tasks.planning.why_rerun import compare, digests_by_dialog, why_again
from tasks.storage.journaling.journal import read_journal
from tasks.storage.parquet_store import listing_again


@dataclass(frozen=True)
class FoundRun:
    """A run as an invocation found it.

    Attributes:
        reused_from: run that paid -> episodes of this run that were finished.
        pending: episodes of this run that were not finished.
        before: the run's own record.
        compared_with: the run that `why` compares with.
    """

    reused_from: Mapping[str, int]
    pending: frozenset[str]
    before: RunRecord | None
    compared_with: str | None = None
    why: tuple[Difference, ...] = ()


def look(plan: RunPlan, before: RunRecord | None) -> FoundRun:
    """Count the finished episodes, and say why the others are not."""
    paid_by, pending = _finished(plan)
    counted = dict(Counter(paid_by.values()).most_common())
    outside = {**plan.state(), "parley_version": parley_version()}
    if before is not None:
        return FoundRun(
            counted,
            pending,
            before,
            plan.run_id,
            why_again(before, plan.spec, outside, len(pending)),
        )
    other = _latest_alike(plan)
    if other is None:
        return FoundRun(counted, pending, None)
    rows = digests_by_dialog(plan.dataset)
    return FoundRun(
        counted, pending, None, other.run_id, compare(plan.lake, other, plan.spec, outside, rows)
    )


def _finished(plan: RunPlan) -> tuple[dict[str, str], frozenset[str]]:
    """Finished episodes of the run with the run that paid, and pending episodes."""
    return plan.episodes.finished(plan.members.ids), frozenset(plan.pending().ids.to_pylist())


def _latest_alike(plan: RunPlan) -> RunRecord | None:
    """The latest run of this model's name on this setting."""
    records = plan.lake.read(
        "runs", RunRecord, benchmark=plan.spec.benchmark, model=plan.spec.label
    )
    alike = [r for r in records if r.setting == plan.spec.full_setting and r.run_id != plan.run_id]
    return max(alike, key=lambda r: r.finished_at, default=None)


def nothing_done(plan: RunPlan, found: FoundRun, status: str) -> RunWork:
    """The account before any work."""
    return RunWork(
        run_id=plan.run_id,
        title=plan.request.title,
        setting=plan.spec.full_setting,
        model=plan.spec.label,
        status=status,
        n_episodes=len(plan.members),
        n_reused=sum(found.reused_from.values()),
        reused_from=tuple(found.reused_from.items()),
        compared_with=found.compared_with,
        why=found.why,
        requests=RequestCounts(),
    )


def with_begun(
    work: RunWork, begun: AbstractSet[str], kept: Mapping[str, Sequence[Step]]
) -> RunWork:
    """Add how many episodes were resumed, with how many answers, and how many were played anew.

    Args:
        begun: episodes that were played in this invocation, to their end or not.
        kept: episode -> steps kept from earlier attempts.
    """
    answers = [
        step for steps in kept.values() for step in steps if step.n_calls or _is_answer(step)
    ]
    return work.model_copy(
        update={
            "n_resumed": len(kept),
            "n_turns_kept": len(answers),
            "n_new": len(begun - kept.keys()),
        }
    )


def _is_answer(step: Step) -> bool:
    return step.kind is StepKind.MESSAGE and step.role is Role.ASSISTANT and not step.is_scripted


def begun_episodes(plan: RunPlan, found: FoundRun) -> frozenset[str]:
    """Return the episodes among the pending ones that finished since then, or of which the journal holds a part."""
    still = set(plan.pending().ids.to_pylist())
    return frozenset(
        (found.pending - still) | read_journal(plan.home.journal(plan.run_id), still).keys()
    )


def with_episodes(
    work: RunWork,
    plan: RunPlan,
    found: FoundRun,
    kept: Mapping[str, Sequence[Step]],
    model_calls: int,
    asked: Sequence[JudgeVerdict] = (),
) -> RunWork:
    """Add the episodes played, and the cost of these and of judgements.

    Args:
        asked: a row of each judgement that came in this invocation.
        kept: episode -> steps kept from earlier attempts.
        model_calls: requests that workers reported. A dead worker's requests are known by the answers that it had journaled.
    """
    new = listing_again(lambda: paid_steps(plan.episodes.chosen(found.pending).pieces(), kept))
    tokens_in, tokens_out, unknown = _tokens(new)
    return with_begun(work, found.pending, kept).model_copy(
        update={
            "model_calls": max(model_calls, sum(step["n_calls"] for step in new)),
            "input_tokens": tokens_in,
            "output_tokens": tokens_out,
            "n_unknown_tokens": unknown,
            "usd": sum_usd((*_player_costs(plan, new), *_judge_costs(plan, asked))),
        }
    )


def with_judgements(
    work: RunWork, plan: RunPlan, asked: Sequence[JudgeVerdict], n_reused: int, model_calls: int
) -> RunWork:
    """Add the judgements asked for and their tokens.

    Args:
        asked: a row of each judgement that came in this invocation.
        n_reused: judgements that were known before.
        model_calls: requests that workers reported for judgements.
    """
    tokens_in, tokens_out, unknown = _tokens(_judged_rows(asked))
    return work.model_copy(
        update={
            "judgements_asked": len(asked),
            "judgements_reused": n_reused,
            "model_calls": work.model_calls + max(model_calls, sum(row.n_calls for row in asked)),
            "input_tokens": work.input_tokens + tokens_in,
            "output_tokens": work.output_tokens + tokens_out,
            "n_unknown_tokens": work.n_unknown_tokens + unknown,
        }
    )


def paid_steps(
    pieces: Iterable[pa.Table], kept: Mapping[str, Sequence[Step]]
) -> list[dict[str, Any]]:
    """Return the paid steps of episodes after their kept steps, without texts.

    Args:
        pieces: Rows of `episodes`. All of them together may be gigabytes.
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


def _role(step: dict[str, Any]) -> str:
    return "simulator" if step["role"] == Role.USER.value else "subject"


def _player_costs(plan: RunPlan, steps: list[dict[str, Any]]) -> Iterator[RoleCost]:
    """Cost of each role that answered."""
    players = (
        ("subject", plan.spec.subject, plan.request.model),
        ("simulator", plan.spec.simulator, plan.request.simulator),
    )
    for role, identity, asked in players:
        own = [step for step in steps if _role(step) == role]
        if own:
            yield (
                RoleCost(None)
                if identity is None or asked is None
                else role_cost(plan, identity, asked, _tokens(own))
            )


def _judge_costs(plan: RunPlan, asked: Sequence[JudgeVerdict]) -> Iterator[RoleCost]:
    """Cost of each rubric's judge that answered."""
    for rubric, judge in plan.judges.items():
        if own := _judged_rows([row for row in asked if row.rubric == rubric]):
            yield role_cost(plan, judge.judge.judge, judge.request, _tokens(own))


def _judged_rows(asked: Sequence[JudgeVerdict]) -> list[dict[str, Any]]:
    return [
        row.model_dump(include={"input_tokens", "output_tokens"}) for row in asked if row.n_calls
    ]
