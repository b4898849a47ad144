"""Rules that compare a run with others, and early decisions that follow from them.

No id contains a rule, so two nights may set different rules for the same run.
"""

from typing import Literal

from pydantic import Field

from schemas.base import Frozen, RunRow

PREDECESSOR = "predecessor"
"""Name of a baseline: the previous checkpoint, as the table `comparisons` determines it."""
BOOTSTRAP, SEQUENCE = "bootstrap", "sequence"
"""Kinds of intervals, as in `leaderboard.interval_kind`."""
DecisionName = Literal["better", "worse", "equivalent", "all_asked"]


class DecisionRule(Frozen):
    """Rule by which a run stops once its comparison with a baseline is decided.

    No id contains it.
    """

    baseline: str = Field(min_length=1)
    """Baseline: a model's label, the label's last part, a family (each also with `@REVISION`), a
    run, or `predecessor`."""
    margin: float = Field(default=0.03, gt=0, lt=1)
    """Equivalence margin, as a share of the metric's range (0 to 1): models with a smaller
    difference are equivalent."""
    alpha: float = Field(default=0.05, gt=0, lt=1)
    """Probability of a false decision of the run, divided equally among its metrics
    (Bonferroni)."""
    metrics: tuple[str, ...] = ()
    """Metrics to decide. Without any, the setting's first metric that has a better direction."""


class SequencePoint(Frozen):
    """Interval after `n` problems."""

    n: int = Field(ge=0)
    low: float
    high: float


class Decision(RunRow):
    """Decision on one metric of a run against its baseline: a row of `decisions`.

    All intervals are confidence sequences: unlike a bootstrap's, they are valid at every number of
    problems simultaneously.
    """

    baseline_run_id: str
    baseline_model: str
    metric: str
    margin: float
    alpha: float
    """Error probability of the run, divided equally among its metrics."""
    n_metrics: int = Field(ge=1)
    decision: DecisionName | None = None
    """Result of the comparison; None if the scores at the invocation's end allow no decision. The
    next invocation then asks further problems."""
    n_asked: int = Field(ge=0)
    """Number of problems whose difference counts: the first ones in the fixed order."""
    n_total: int = Field(ge=0)
    """Number of problems that the interval's mean covers: those that both runs can score."""
    n_left_out: int = Field(ge=0)
    """Number of requested problems that the baseline has no score for."""
    task_share: float | None = Field(default=None, gt=0, le=1)
    """Share of the dataset's tasks that the run has (above 0, at most 1); None if it has all."""
    mean_difference: float | None = None
    """Mean over the problems asked of this run minus the baseline, in the metric's unit."""
    low: float
    """Lower bound of the mean difference over all `n_total` problems, in the metric's unit."""
    high: float
    """Upper bound of the mean difference over all `n_total` problems, in the metric's unit."""
    mean: float | None = None
    """Mean of this run over the problems asked. Each problem's scores are averaged first."""
    mean_low: float
    """Lower bound of the run's mean over all `n_total` problems."""
    mean_high: float
    """Upper bound of the run's mean over all `n_total` problems."""
    e_value: float = Field(ge=0)
    """E-value of the decision, if there is one. e-BH combines the e-values of a night's runs."""
    saved_calls: float | None = None
    """Estimated number of requests that the remaining problems would have taken; None if unknown.
    The estimate uses the means of the problems asked."""
    saved_tokens: float | None = None
    """Estimated number of tokens that the remaining problems would have taken; None if unknown."""
    saved_usd: float | None = None
    """Estimated cost in USD of the remaining problems; None if unknown."""
    sequence: tuple[SequencePoint, ...] = ()
    """Interval after each step, at most 100 points."""


THRESHOLD = 0.01
"""Default of the smallest loss that counts as a regression, in the metric's own unit."""


class ComparisonRule(RunRow):
    """Comparison rules of the latest invocation that requested a run."""

    family: str
    """Name that the successive checkpoints of one model share."""
    baseline: str | None = None
    """Baseline that all runs are compared with: a model's label, `LABEL@REVISION` or a run."""
    threshold: float = Field(default=THRESHOLD, ge=0)
    thresholds: tuple[tuple[str, float], ...] = ()
    """Thresholds of single metrics: (metric, threshold), sorted by metric."""
