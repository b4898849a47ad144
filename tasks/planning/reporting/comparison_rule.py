"""Keeps how a run is to be compared, as its requests state it."""

from schemas.night.comparison import ComparisonRule
from tasks.planning.plan import RunPlan

_PART = "rule"


def keep_comparison_rule(plan: RunPlan) -> bool:
    """Write the run's rule to the lake; returns whether it is another than before.

    A family or comparison stated before stays where none is stated now.
    """
    found = plan.lake.read("comparison_rules", ComparisonRule, **plan.keys)
    unstated = ComparisonRule(
        run_id=plan.run_id,
        benchmark=plan.spec.benchmark,
        model=plan.spec.label,
        family=plan.spec.label,
    )
    before = found[0] if found else unstated
    asked = plan.request.comparison
    stated = (
        {}
        if asked is None
        else {**asked.model_dump(), "thresholds": tuple(sorted(asked.thresholds.items()))}
    )
    rule = before.model_copy(
        update={**stated, "family": plan.request.model.family or before.family}
    )
    if found == [rule]:
        return False
    plan.lake.write_part("comparison_rules", [rule], _PART, **plan.keys)
    return True
