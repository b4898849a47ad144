"""Rows of the table `decisions`: a run's early decision, and the requests that it made needless."""

from collections.abc import Iterable, Sequence

from schemas.night.decision import Decision
from schemas.verdict import JudgeVerdict
from tasks.planning.decisions.evidence import Evidence
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.account import (
    StartState,
    empty_account,
    with_episodes,
    with_judgements,
)

_PART = "decisions"


def decision_rows(
    plan: RunPlan, evidence: Evidence, judged: Iterable[JudgeVerdict]
) -> tuple[Decision, ...]:
    """Return a row for each metric of the run's decision rule.

    Args:
        plan: plan of the run.
        evidence: evidence with the run's scores.
        judged: judgements of the run, to estimate the cost of those that were not needed.
    """
    calls, tokens, usd = _saved(plan, evidence, judged)
    other = evidence.baseline.run
    rows: list[Decision] = []
    for name in evidence.metrics:
        verdict = evidence.verdict(name)
        rows.append(
            Decision(
                run_id=plan.run_id,
                benchmark=plan.spec.benchmark,
                model=plan.spec.label,
                baseline_run_id=other.run_id,
                baseline_model=other.model,
                metric=name,
                margin=evidence.rule.margin,
                alpha=evidence.rule.alpha,
                n_metrics=len(evidence.metrics),
                decision=verdict.decision,
                n_asked=verdict.n_asked,
                n_total=verdict.n_total,
                n_left_out=verdict.n_left_out,
                task_share=plan.task_share,
                mean_difference=verdict.mean_difference,
                low=verdict.low,
                high=verdict.high,
                mean=verdict.mean,
                mean_low=verdict.mean_low,
                mean_high=verdict.mean_high,
                e_value=verdict.e_value,
                saved_calls=calls,
                saved_tokens=tokens,
                saved_usd=usd,
                sequence=verdict.points,
            )
        )
    return tuple(rows)


def keep_decisions(plan: RunPlan, rows: Sequence[Decision]) -> None:
    """Replace the run's stored decisions by `rows`. Without rows, remove them."""
    if rows:
        plan.lake.write_part("decisions", rows, _PART, **plan.keys)
    elif plan.lake.parts("decisions", **plan.keys):
        plan.lake.keep_only("decisions", (), **plan.keys)


def _saved(
    plan: RunPlan, evidence: Evidence, judged: Iterable[JudgeVerdict]
) -> tuple[float | None, float | None, float | None]:
    """Estimate the calls, tokens and USD of the problems that were not played.

    The estimate uses the means over the problems that were played.
    """
    asked_ids = set(plan.members.problem_ids)
    n_saved = sum(problem not in asked_ids for problem in evidence.order)
    if not asked_ids:
        return None, None, None
    state = StartState({}, frozenset(plan.members.ids.to_pylist()), None)
    spent = with_episodes(empty_account(plan, state, "finished"), plan, state, {}, 0)
    if plan.judges:
        spent = with_judgements(
            spent, plan, list({row.judgement_id: row for row in judged}.values()), 0, 0
        )
    each = n_saved / len(asked_ids)
    tokens = None if spent.n_unknown_tokens else (spent.input_tokens + spent.output_tokens) * each
    return spent.model_calls * each, tokens, None if spent.usd is None else spent.usd * each
