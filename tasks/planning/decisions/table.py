"""Rows of the table `decisions`: a run's early decision, and the requests that it made needless."""

from collections.abc import Iterable, Sequence

from schemas.night.decision import Decision
from schemas.verdict import JudgeVerdict
from tasks.planning.decisions.evidence import Evidence
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.account import (
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
    saved = _saved(plan, evidence, judged)
    return tuple(evidence.decision(name).model_copy(update=saved) for name in evidence.metrics)


def keep_decisions(plan: RunPlan, rows: Sequence[Decision]) -> None:
    """Replace the run's stored decisions by `rows`. Without rows, remove them."""
    if rows:
        plan.lake.write_part("decisions", rows, _PART, **plan.keys)
    elif plan.lake.parts("decisions", **plan.keys):
        plan.lake.keep_only("decisions", (), **plan.keys)


def _saved(
    plan: RunPlan, evidence: Evidence, judged: Iterable[JudgeVerdict]
) -> dict[str, float | None]:
    """Estimate the calls, tokens and USD of the problems that were not played.

    The estimate uses the means over the problems that were played.
    """
    asked_ids = set(plan.members.problem_ids)
    n_saved = sum(problem not in asked_ids for problem in evidence.order)
    if not asked_ids:
        return {}
    played = frozenset(plan.members.ids.to_pylist())
    spent = with_episodes(empty_account(plan), plan, played, {}, 0)
    if plan.judges:
        spent = with_judgements(
            spent, plan, list({row.judgement_id: row for row in judged}.values()), 0, 0
        )
    each = n_saved / len(asked_ids)
    tokens = None if spent.n_unknown_tokens else (spent.input_tokens + spent.output_tokens) * each
    return {
        "saved_calls": spent.model_calls * each,
        "saved_tokens": tokens,
        "saved_usd": None if spent.usd is None else spent.usd * each,
    }
