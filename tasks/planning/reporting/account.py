"""Accounts for an invocation: finished episodes found and work paid for, counted from the lake before and after."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from schemas.dialog import Role
from schemas.episode import Step, StepKind
from schemas.lake.records import RunRecord
from schemas.night.work import Difference, RunWork
from schemas.run import ModelIdentity
from schemas.verdict import JudgeVerdict
from tasks.planning.participants.models import prices
from tasks.planning.plan import RunPlan
from tasks.planning.version import parley_version
from tasks.planning.why_rerun import compare, digests_by_dialog, why_again


@dataclass(frozen=True)
class FoundRun:
    """A run as an invocation found it.

    Attributes:
        reused_from: run that paid -> episodes of this run that were finished.
        owed: episodes of this run that were not finished.
        before: the run's own record.
        compared_with: the run that `why` compares with.
    """

    reused_from: Mapping[str, int]
    owed: frozenset[str]
    before: RunRecord | None
    compared_with: str | None = None
    why: tuple[Difference, ...] = ()


def look(plan: RunPlan, before: RunRecord | None) -> FoundRun:
    """Count the finished episodes, and say why the others are not."""
    paid_by, owed = _finished(plan)
    counted = dict(Counter(paid_by.values()).most_common())
    outside = {**plan.state(), "parley_version": parley_version()}
    if before is not None:
        return FoundRun(counted, owed, before, plan.run_id, why_again(before, plan.spec, outside, len(owed)))
    other = _latest_alike(plan)
    if other is None:
        return FoundRun(counted, owed, None)
    rows = digests_by_dialog(plan.dataset)
    return FoundRun(counted, owed, None, other.run_id, compare(plan.lake, other, plan.spec, outside, rows))


def _finished(plan: RunPlan) -> tuple[dict[str, str], frozenset[str]]:
    """Finished episodes of the run with the run that paid, and owed episodes."""
    paid_by = plan.episodes.finished(w.episode_id for w in plan.members)
    return paid_by, frozenset(w.episode_id for w in plan.wanted if w.episode_id not in paid_by)


def _latest_alike(plan: RunPlan) -> RunRecord | None:
    """The latest run of this model's name on this setting."""
    records = plan.lake.read("runs", RunRecord, benchmark=plan.spec.benchmark, model=plan.spec.label)
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
    )


def with_episodes(work: RunWork, plan: RunPlan, found: FoundRun, kept: Mapping[str, Sequence[Step]], model_calls: int) -> RunWork:
    """Add the episodes played and their cost.

    Args:
        kept: episode -> steps kept from earlier attempts.
        model_calls: requests that workers reported. A dead worker's requests are known by the answers that it had journaled.
    """
    new = paid_steps(plan.episodes.rows(found.owed), kept)
    messages = (step for steps in kept.values() for step in steps if step.kind is StepKind.MESSAGE)
    old = [step for step in messages if step.role is Role.ASSISTANT and not step.is_scripted]
    tokens_in, tokens_out, unknown = _tokens(new)
    return work.model_copy(
        update={
            "n_resumed": len(kept),
            "n_turns_kept": len(old),
            "n_new": len(found.owed - kept.keys()),
            "model_calls": max(model_calls, sum(step["n_calls"] for step in new)),
            "input_tokens": tokens_in,
            "output_tokens": tokens_out,
            "n_unknown_tokens": unknown,
            "usd": _usd(plan, new),
        }
    )


def with_judgements(work: RunWork, plan: RunPlan, asked: Sequence[JudgeVerdict], n_reused: int, model_calls: int) -> RunWork:
    """Add the judgements asked for and their cost.

    Args:
        asked: a row of each judgement that came in this invocation.
        n_reused: judgements that were known before.
        model_calls: requests that workers reported for judgements.
    """
    tokens_in = tokens_out = unknown = 0
    usd = work.usd
    for rubric, judge in plan.judges.items():
        rows = [
            row.model_dump(include={"input_tokens", "output_tokens"}) for row in asked if row.rubric == rubric and row.n_calls
        ]
        of_rubric = _tokens(rows)
        cost = _cost(*prices(plan, judge.judge.judge), *of_rubric) if rows else 0.0
        usd = None if usd is None or cost is None else usd + cost
        tokens_in, tokens_out, unknown = (a + b for a, b in zip((tokens_in, tokens_out, unknown), of_rubric, strict=True))
    return work.model_copy(
        update={
            "judgements_asked": len(asked),
            "judgements_reused": n_reused,
            "model_calls": work.model_calls + max(model_calls, sum(row.n_calls for row in asked)),
            "input_tokens": work.input_tokens + tokens_in,
            "output_tokens": work.output_tokens + tokens_out,
            "n_unknown_tokens": work.n_unknown_tokens + unknown,
            "usd": usd,
        }
    )


def _cost(price_in: float | None, price_out: float | None, tokens_in: int, tokens_out: int, unknown: int) -> float | None:
    """USD; None where a price or a count is unknown."""
    if price_in is None or price_out is None or unknown:
        return None
    return (tokens_in * price_in + tokens_out * price_out) / 1e6


def paid_steps(rows: pa.Table, kept: Mapping[str, Sequence[Step]]) -> list[dict[str, Any]]:
    """What was paid for beyond the kept steps, without its texts: they may be gigabytes."""
    steps = rows["steps"].combine_chunks()
    every = steps.flatten()
    facts = pa.table({name: every.field(name) for name in ("role", "n_calls", "input_tokens", "output_tokens")}).to_pylist()
    new: list[dict[str, Any]] = []
    end = 0
    for episode_id, n_steps in zip(rows["episode_id"].to_pylist(), steps.value_lengths().to_pylist(), strict=True):
        new += facts[end + len(kept.get(episode_id, ())) : end + n_steps]
        end += n_steps
    return [step for step in new if step["n_calls"] > 0]


def _tokens(steps: list[dict[str, Any]]) -> tuple[int, int, int]:
    unknown = sum(step["input_tokens"] is None or step["output_tokens"] is None for step in steps)
    return sum(s["input_tokens"] or 0 for s in steps), sum(s["output_tokens"] or 0 for s in steps), unknown


def _role(step: dict[str, Any]) -> str:
    return "simulator" if step["role"] == Role.USER.value else "subject"


def _usd(plan: RunPlan, steps: list[dict[str, Any]]) -> float | None:
    """Cost of the answers that came; 0.0 where none did. None where a price or a count is unknown."""
    models: dict[str, ModelIdentity | None] = {"subject": plan.spec.subject, "simulator": plan.spec.simulator}
    total = 0.0
    for role in sorted({_role(step) for step in steps}):
        identity = models[role]
        if identity is None:
            return None
        cost = _cost(*prices(plan, identity), *_tokens([step for step in steps if _role(step) == role]))
        if cost is None:
            return None
        total += cost
    return total
