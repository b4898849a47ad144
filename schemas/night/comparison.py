"""Rules that compare a run with others.

No id contains them: a night may set other rules for the same run.
"""

from pydantic import Field

from schemas.base import Frozen

THRESHOLD = 0.01
"""Default of the smallest loss that counts as a regression, in the metric's own unit."""


class ComparisonRule(Frozen):
    """Comparison rules of the latest invocation that requested a run."""

    run_id: str
    benchmark: str
    model: str
    family: str
    """Name that the successive checkpoints of one model share."""
    baseline: str | None = None
    """Baseline that all runs are compared with: a model's label, `LABEL@REVISION` or a run."""
    threshold: float = Field(default=THRESHOLD, ge=0)
    thresholds: tuple[tuple[str, float], ...] = ()
    """Thresholds of single metrics: (metric, threshold), sorted by metric."""
