"""Finds what decides a run, and holds its plan to the problems that a decision may need or that it was reached with."""

from typing import TYPE_CHECKING

from schemas.lake.records import RunEpisode
from schemas.night.decision import Decision
from tasks.planning.decisions.baseline import find_baseline
from tasks.planning.decisions.evidence import Evidence

if TYPE_CHECKING:
    from tasks.planning.plan import RunPlan


def evidence_for(plan: "RunPlan") -> Evidence | None:
    """Return the evidence of a run that is to be decided early, without scores of its own; None where nothing is to be decided.

    Holds the plan to the problems that the decision may need; where it was reached before, to those that the run has.

    Raises:
        UsageError: rule and baseline do not fit the run.
    """
    rule = plan.request.decide
    baseline = find_baseline(plan, rule) if rule is not None else None
    if rule is None or baseline is None:
        return None
    evidence = Evidence(plan, rule, baseline)
    decided = decided_problems(plan, evidence)
    plan.narrow(evidence.order if decided is None else decided)
    return evidence


def decided_problems(plan: "RunPlan", evidence: Evidence) -> frozenset[str] | None:
    """Return the problems that the run has, where it is decided by this very rule and baseline already; else None."""
    rows = plan.lake.read("decisions", Decision, **plan.keys)
    asked = {
        (name, evidence.rule.margin, evidence.rule.alpha, evidence.baseline.run.run_id)
        for name in evidence.metrics
    }
    kept = {
        (row.metric, row.margin, row.alpha, row.baseline_run_id)
        for row in rows
        if row.decision is not None
    }
    if asked != kept or len(rows) != len(kept):
        return None
    return frozenset(
        row.problem_id for row in plan.lake.read("run_episodes", RunEpisode, **plan.keys)
    )
