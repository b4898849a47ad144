"""Evidence of a run that may be decided early, and the problems that its plan is narrowed to."""

from typing import TYPE_CHECKING

from schemas.lake.records import RunEpisode
from schemas.night.decision import Decision
from tasks.planning.decisions.baseline import find_baseline
from tasks.planning.decisions.evidence import Evidence

if TYPE_CHECKING:
    from tasks.planning.plan import RunPlan


def evidence_for(plan: "RunPlan") -> Evidence | None:
    """Return the evidence of a run, still without its own scores; None without an early decision.

    The plan is narrowed to the problems that the decision may need. If the run is decided already,
    the plan is narrowed to the problems that the run has.

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
    """Return the problems of a run that the same rule and baseline decided earlier; else None."""
    rows = plan.lake.read("decisions", Decision, **plan.keys)
    requested = {
        (name, evidence.rule.margin, evidence.rule.alpha, evidence.baseline.run.run_id)
        for name in evidence.metrics
    }
    stored = {
        (row.metric, row.margin, row.alpha, row.baseline_run_id)
        for row in rows
        if row.decision is not None
    }
    if requested != stored or len(rows) != len(stored):
        return None
    return frozenset(
        row.problem_id for row in plan.lake.read("run_episodes", RunEpisode, **plan.keys)
    )
