"""Early decisions: by which rule a run may stop asking, and how it was decided."""

from typing import Literal

from pydantic import Field

from schemas.base import Frozen

PREDECESSOR = "predecessor"
"""Baseline that means the checkpoint before, as the table `comparisons` finds it."""
DecisionName = Literal["better", "worse", "equivalent", "all_asked"]


class DecisionRule(Frozen):
    """Rule by which a run stops asking once its comparison with a baseline is decided. In no id."""

    baseline: str = Field(min_length=1)
    """A model's label, its last part, a family (each also with `@REVISION`), a run, or `predecessor`."""
    margin: float = Field(default=0.03, gt=0, lt=1)
    """Differences below it make two models equivalent, in shares of the metric's range."""
    alpha: float = Field(default=0.05, gt=0, lt=1)
    """Probability of a false decision of the run, shared by its metrics in equal parts (Bonferroni)."""
    metrics: tuple[str, ...] = ()
    """Metrics to decide; without any the setting's first that has a better direction."""


class SequencePoint(Frozen):
    """The interval after so many problems."""

    n: int = Field(ge=0)
    low: float
    high: float


class Decision(Frozen):
    """How one metric of a run was decided against its baseline: a row of `decisions`.

    All intervals are confidence sequences: valid at every number of problems asked at once, unlike a bootstrap's.
    """

    run_id: str
    benchmark: str
    model: str
    baseline_run_id: str
    baseline_model: str
    metric: str
    margin: float
    alpha: float
    """Of the run; each of its metrics has its part."""
    n_metrics: int = Field(ge=1)
    decision: DecisionName | None = None
    """None where the scores at the end allow none: the next invocation asks on."""
    n_asked: int = Field(ge=0)
    """Problems whose difference counts: the first ones in the fixed order."""
    n_total: int = Field(ge=0)
    """Problems that the interval's mean is of: those that both runs can score."""
    n_left_out: int = Field(ge=0)
    """Problems that were wanted, and that the baseline has no score of."""
    task_share: float | None = Field(default=None, gt=0, le=1)
    """Share of the dataset's tasks that the run has; None where it has all."""
    mean_difference: float | None = None
    """Of the problems asked, this run minus the baseline, in the metric's unit."""
    low: float
    high: float
    """Sequence's interval of the mean difference of all `n_total` problems, in the metric's unit."""
    mean: float | None = None
    """Mean of this run over the problems asked, each problem's scores averaged first."""
    mean_low: float
    mean_high: float
    """Sequence's interval of the run's mean over all `n_total` problems."""
    e_value: float = Field(ge=0)
    """Evidence for the decision, where there is one: e-BH takes it over the runs of a night."""
    saved_calls: float | None = None
    saved_tokens: float | None = None
    saved_usd: float | None = None
    """What the problems not asked would have taken, estimated by the means of those asked; None where that is unknown."""
    sequence: tuple[SequencePoint, ...] = ()
    """The interval as it narrowed, at most 100 points."""
