"""Rows of the table `decisions`: how a run was decided, and what that saved."""

from collections.abc import Iterable, Sequence

from schemas.night.decision import Decision
from schemas.verdict import JudgeVerdict
from tasks.planning.decisions.evidence import Evidence
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.account import FoundRun, nothing_done, with_episodes, with_judgements

_PART = "decisions"


def decision_rows(
    plan: RunPlan, evidence: Evidence, judged: Iterable[JudgeVerdict]
) -> tuple[Decision, ...]:
    """Return a row for each metric of the rule.

    Args:
        judged: the run's judgements. Their cost is a part of what was saved.
    """
    calls, tokens, usd = _saved(plan, evidence, judged)
    other = evidence.baseline.run
    rows: list[Decision] = []
    for name in evidence.metrics:
        found = evidence.verdict(name)
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
                decision=found.decision,
                n_asked=found.n_asked,
                n_total=found.n_total,
                n_left_out=found.n_left_out,
                task_share=plan.task_share,
                mean_difference=found.mean_difference,
                low=found.low,
                high=found.high,
                mean=found.mean,
                mean_low=found.mean_low,
                mean_high=found.mean_high,
                e_value=found.e_value,
                saved_calls=calls,
                saved_tokens=tokens,
                saved_usd=usd,
                sequence=found.points,
            )
        )
    return tuple(rows)


def keep_decisions(plan: RunPlan, rows: Sequence[Decision]) -> None:
    """Write the run's decisions in place of earlier ones; without rows, remove them."""
    if rows:
        plan.lake.write_part("decisions", rows, _PART, **plan.keys)
    elif plan.lake.parts("decisions", **plan.keys):
        plan.lake.keep_only("decisions", (), **plan.keys)


def _saved(
    plan: RunPlan, evidence: Evidence, judged: Iterable[JudgeVerdict]
) -> tuple[float | None, float | None, float | None]:
    """Return the calls, tokens and USD of the problems of the order that were not asked, by the means of those that were."""
    asked = set(plan.members.problem_ids)
    n_saved = sum(problem not in asked for problem in evidence.order)
    if not asked:
        return None, None, None
    whole = FoundRun({}, frozenset(plan.members.ids.to_pylist()), None)
    spent = with_episodes(nothing_done(plan, whole, "finished"), plan, whole, {}, 0)
    if plan.judges:
        spent = with_judgements(
            spent, plan, list({row.judgement_id: row for row in judged}.values()), 0, 0
        )
    each = n_saved / len(asked)
    tokens = None if spent.n_unknown_tokens else (spent.input_tokens + spent.output_tokens) * each
    return spent.model_calls * each, tokens, None if spent.usd is None else spent.usd * each
