"""Comparison rule of a run, stored in the lake."""

from schemas.night.comparison import ComparisonRule
from tasks.planning.plan import RunPlan

_PART = "rule"


def keep_comparison_rule(plan: RunPlan) -> bool:
    """Write the run's rule to the lake and return True if it changed.

    A request without a family or comparison keeps that of an earlier request.
    """
    stored = plan.lake.read("comparison_rules", ComparisonRule, **plan.keys)
    default = ComparisonRule(
        run_id=plan.run_id,
        benchmark=plan.spec.benchmark,
        model=plan.spec.label,
        family=plan.spec.label,
    )
    before = stored[0] if stored else default
    comparison = plan.request.comparison
    update = (
        {}
        if comparison is None
        else {
            **comparison.model_dump(),
            "thresholds": tuple(sorted(comparison.thresholds.items())),
        }
    )
    rule = before.model_copy(
        update={**update, "family": plan.request.model.family or before.family}
    )
    if stored == [rule]:
        return False
    plan.lake.write_part("comparison_rules", [rule], _PART, **plan.keys)
    return True
