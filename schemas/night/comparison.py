"""How a run is compared with others. In no id: a night may state other rules for the same run."""

from pydantic import Field

from schemas.base import Frozen

THRESHOLD = 0.01
"""Least loss that is a regression where nobody states another, in the metric's own unit."""


class ComparisonRule(Frozen):
    """What the latest invocation that asked for a run states about its comparisons."""

    run_id: str
    benchmark: str
    model: str
    family: str
    """Checkpoints of one family follow each other."""
    baseline: str | None = None
    """A model's label, `LABEL@REVISION` or a run: all runs are compared with it."""
    threshold: float = Field(default=THRESHOLD, ge=0)
    thresholds: tuple[tuple[str, float], ...] = ()
    """(metric, its own threshold), sorted."""
