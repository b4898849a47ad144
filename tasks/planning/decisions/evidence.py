"""Evidence for an early decision: paired differences between a run and its baseline."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from schemas.dialog import Dialog
from schemas.episode import Score
from schemas.errors import ConfigError, UnknownName
from schemas.lake.records import RunEpisode
from schemas.night.decision import Decision, DecisionName, DecisionRule, SequencePoint
from tasks.metrics.registry import METRICS
from tasks.planning.dataset import problem_order
from tasks.planning.decisions.baseline import Baseline, Place, by_place, find_baseline
from warehouse.comparison.problem_differences import ScorePair, paired_differences
from warehouse.comparison.sequential import (
    confidence_interval,
    decide,
    e_values,
    intervals,
    would_decide,
)

if TYPE_CHECKING:
    from tasks.planning.plan import RunPlan

_MOST_POINTS = 100


@dataclass(frozen=True)
class _Compared:
    """Problems that the baseline has a score for, in the fixed order, for one metric.

    The arrays of scores end at the last problem that counts. NaN: the run has no score.
    """

    differences: np.ndarray
    """The run minus its baseline, scaled to the metric's range so that higher is better."""
    values: np.ndarray
    """The run's own scores, scaled to 0 to 1."""
    strata: np.ndarray
    """Number of the stratum of each problem, evaluated or not."""

    @property
    def n_scored(self) -> int:
        return int(np.count_nonzero(~np.isnan(self.differences)))

    @property
    def n_total(self) -> int:
        """Number of problems that the mean difference covers, as far as is known."""
        return self.strata.size - self.differences.size + self.n_scored

    def interval(self, scores: np.ndarray, alpha: float) -> tuple[float, float]:
        return confidence_interval(scores, self.strata.size, alpha, self.strata)


class Evidence:
    """Scores of a run and its baseline. The run's scores are added as its problems end.

    Problems have a fixed order, and only those before the first problem without scores count. So
    the speed of an answer cannot bias a decision. A problem for which the metric is not defined is
    left out of the differences and of `n_total`.
    """

    def __init__(self, plan: "RunPlan", rule: DecisionRule, baseline: Baseline) -> None:
        self._plan, self.rule, self.baseline = plan, rule, baseline
        self.metrics = _chosen_metrics(plan, rule)
        self._ends = {name: METRICS.load(name).ends for name in self.metrics}
        subsample = plan.request.benchmark.subsample
        self.wanted = problem_order(
            plan.wanted.problem_ids, plan.spec.benchmark, subsample.seed if subsample else 0
        )
        for name in self.metrics:
            self._require_comparable(name)
        self.order = tuple(
            problem
            for problem in self.wanted
            if any(problem in self._theirs(name) for name in self.metrics)
        )
        """Problems to play, in their fixed order. The baseline has a score for each of them."""
        self._own: dict[str, dict[str, Mapping[Place, float]]] = {name: {} for name in self.metrics}
        self._ended: set[str] = set()
        self._faulty: set[str] = set()

    def _theirs(self, metric: str) -> Mapping[str, Mapping[Place, float]]:
        return self.baseline.scores.get(metric, {})

    def _require_comparable(self, metric: str) -> None:
        theirs, version = self._theirs(metric), METRICS.load(metric).version
        if not any(problem in theirs for problem in self.wanted):
            raise ConfigError(
                f"decide: baseline run {self.baseline.run.run_id[:12]} has no score of {metric!r} "
                "on these problems. Name another metric or baseline"
            )
        if self.baseline.versions[metric] != version:
            raise ConfigError(
                f"decide: baseline run {self.baseline.run.run_id[:12]} has version "
                f"{self.baseline.versions[metric]} of {metric!r}, this Parley has {version}. "
                "Evaluate the baseline again: its stored dialogues are reused"
            )
        baseline_alone = (
            ScorePair(problem, place, None, value)
            for problem, values in theirs.items()
            for place, value in values.items()
        )
        paired_differences(baseline_alone, self._ends[metric])

    @cached_property
    def dialog_of(self) -> Mapping[str, str]:
        """Map each episode of the run to its dialog."""
        return {w.episode_id: w.dialog_id for w in self._plan.everything}

    def take(self, problems: Collection[str], scores: Iterable[Score]) -> None:
        """Add problems whose dialogues have ended, with their scores.

        If a fault left a problem unscored, later problems of the order do not count yet.
        """
        scores = [
            score for score in scores if score.metric in self._own and score.problem_id in problems
        ]
        values = by_place(scores, self.dialog_of)
        faults = {
            score.problem_id
            for score in scores
            if score.unscored_reason is not None and score.unscored_reason.is_fault
        }
        self._ended |= set(problems)
        self._faulty = (self._faulty - set(problems)) | faults
        for name, of_metric in self._own.items():
            for problem in problems:
                of_metric[problem] = values.get(name, {}).get(problem, {})

    def skip_faults(self) -> None:
        """Leave out problems that a fault left unscored, once no attempt remains for them."""
        self._faulty.clear()

    @property
    def n_in_order(self) -> int:
        """Number of problems, in the fixed order, before the first problem without scores."""
        return next(
            (
                n
                for n, name in enumerate(self.order)
                if name not in self._ended or name in self._faulty
            ),
            len(self.order),
        )

    @property
    def is_decided(self) -> bool:
        """True if every metric is decided."""
        return all(self._decided(name) is not None for name in self.metrics)

    def would_decide(self, begun: Collection[str]) -> bool:
        """Return True if the begun problems suffice, if unfinished ones score like finished ones.

        Args:
            begun: Problems whose dialogues have begun.
        """
        n_begun = sum(problem in begun or problem in self._ended for problem in self.order)
        return all(
            would_decide(
                compared.differences,
                n_begun,
                compared.strata.size,
                self._alpha,
                self.rule.margin,
                compared.strata,
            )
            for compared in map(self._compared, self.metrics)
        )

    def _decided(self, metric: str) -> DecisionName | None:
        compared = self._compared(metric)
        interval = compared.interval(compared.differences, self._alpha)
        return decide(interval, self.rule.margin, self.n_in_order == len(self.order))

    @property
    def is_judged(self) -> bool:
        """True if a metric of the rule reads judgements."""
        return any(METRICS.load(name).judged for name in self.metrics)

    @property
    def _alpha(self) -> float:
        return self.rule.alpha / len(self.metrics)

    @cached_property
    def _strata(self) -> Mapping[str, np.ndarray]:
        rows = self._plan.everything.rows
        at = dict(zip(rows["problem_id"].to_pylist(), rows["at"].to_pylist(), strict=True))
        dialogs = {problem: self._plan.dataset[at[problem]] for problem in self.order}
        strata: dict[str, np.ndarray] = {}
        for metric, (low, high) in self._ends.items():
            theirs = self._theirs(metric)
            problems = [problem for problem in self.order if problem in theirs]
            strata[metric] = number_strata(
                [(fmean(theirs[name].values()) - low) / (high - low) for name in problems],
                [dialogs[name] for name in problems],
            )
        return strata

    def _compared(self, metric: str) -> _Compared:
        theirs, ours = self._theirs(metric), self._own[metric]
        sign = -1.0 if METRICS.load(metric).better == "lower" else 1.0
        low, high = self._ends[metric]
        reached = [problem for problem in self.order[: self.n_in_order] if problem in theirs]
        rows = (
            ScorePair(
                problem,
                (dialog, turn, instruction),
                ours[problem].get(place),
                theirs[problem].get(place),
            )
            for problem in reached
            for place in sorted(theirs[problem].keys() | ours[problem].keys())
            for dialog, _, turn, instruction in [place]
        )
        paired = paired_differences(rows, (low, high))
        differences, values = (
            np.array([of_problem.get(problem, math.nan) for problem in reached])
            for of_problem in (paired.differences, paired.values)
        )
        return _Compared(sign * differences, (values - low) / (high - low), self._strata[metric])

    def decision(self, metric: str) -> Decision:
        """Return the present state of one metric, without the estimate of saved requests."""
        compared = self._compared(metric)
        decision = self._decided(metric)
        low, high = compared.interval(compared.differences, self._alpha)
        mean_low, mean_high = compared.interval(2 * compared.values - 1, self._alpha)
        least, most = self._ends[metric]
        width, sign = most - least, -1 if METRICS.load(metric).better == "lower" else 1
        ends = sorted((sign * low * width, sign * high * width))
        mean_difference, mean = _mean_scored(compared.differences), _mean_scored(compared.values)
        theirs = self._theirs(metric)
        return Decision(
            run_id=self._plan.run_id,
            benchmark=self._plan.spec.benchmark,
            model=self._plan.spec.label,
            baseline_run_id=self.baseline.run.run_id,
            baseline_model=self.baseline.run.model,
            metric=metric,
            margin=self.rule.margin,
            alpha=self.rule.alpha,
            n_metrics=len(self.metrics),
            decision=decision,
            n_asked=compared.n_scored,
            n_total=compared.n_total,
            n_left_out=sum(problem not in theirs for problem in self.wanted),
            task_share=self._plan.task_share,
            mean_difference=None if mean_difference is None else sign * width * mean_difference,
            low=ends[0],
            high=ends[1],
            mean=None if mean is None else least + width * mean,
            mean_low=least + width * (mean_low + 1) / 2,
            mean_high=least + width * (mean_high + 1) / 2,
            e_value=_e_value(compared, self.rule.margin, decision),
            sequence=self._points(compared, sign * width),
        )

    def _points(self, compared: _Compared, factor: float) -> tuple[SequencePoint, ...]:
        if not compared.n_scored:
            return ()
        differences, strata = compared.differences, compared.strata
        ends = intervals(differences, strata.size, self._alpha, strata)[~np.isnan(differences)]
        step = -(-len(ends) // _MOST_POINTS)
        chosen = [*range(step - 1, len(ends) - 1, step), len(ends) - 1]
        return tuple(
            SequencePoint(n=at + 1, low=min(pair), high=max(pair))
            for at in chosen
            for pair in ((factor * float(ends[at][0]), factor * float(ends[at][1])),)
        )


_LARGEST = 1e300
"""Replaces an infinite e-value in tables.

The e-value is infinite if the remaining answers cannot change the decision.
"""


def _e_value(compared: _Compared, margin: float, decision: DecisionName | None) -> float:
    """Return the e-value of a decision; 0 if there is no decision."""
    if decision is None or decision == "all_asked" or not compared.n_scored:
        return 0.0
    strata = compared.strata
    return min(e_values(compared.differences, strata.size, margin, strata)[decision], _LARGEST)


def _mean_scored(scores: np.ndarray) -> float | None:
    scored = scores[~np.isnan(scores)]
    return fmean(scored) if len(scored) else None


def _chosen_metrics(plan: "RunPlan", rule: DecisionRule) -> tuple[str, ...]:
    of_setting = plan.benchmark.metrics_of(plan.spec.setting)
    for name in rule.metrics:
        if name not in of_setting:
            raise UnknownName("metric", name, of_setting, of=plan.spec.full_setting)
        if METRICS.load(name).better is None:
            raise ConfigError(
                f"decide: metric {name!r} has no better direction. Name another metric"
            )
    default = next((name for name in of_setting if METRICS.load(name).better is not None), None)
    if not rule.metrics and default is None:
        raise ConfigError(f"decide: no metric of {plan.spec.full_setting} has a better direction")
    return tuple(dict.fromkeys(rule.metrics)) or (default or "",)


def evidence_for(plan: "RunPlan", rule: DecisionRule) -> Evidence | None:
    """Return the evidence of a run, without the run's scores; None if there is no baseline yet.

    The plan is narrowed to the problems that the decision may need. If the run is decided already,
    the plan is narrowed to the problems that the run has.

    Raises:
        UsageError: rule and baseline do not fit the run.
    """
    baseline = find_baseline(plan, rule)
    if baseline is None:
        return None
    evidence = Evidence(plan, rule, baseline)
    decided = decided_problems(plan, evidence)
    plan.narrow(evidence.order if decided is None else decided)
    return evidence


def decided_problems(plan: "RunPlan", evidence: Evidence) -> frozenset[str] | None:
    """Return the run's problems if an equal rule and baseline decided it earlier; else None."""
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


_SCORE_STEPS = 4
"""The baseline's scores are rounded to multiples of 1 / this number."""
_MOST_VALUES = 12
"""A label with more values, such as a name, defines no strata."""
_SMALLEST = 0.02
"""Smallest share of the problems in a stratum. Smaller ones are joined within their score."""


def number_strata(scores: Sequence[float], dialogs: Sequence[Dialog]) -> np.ndarray:
    """Number the stratum of each problem by the baseline's score and by labels such as `level`.

    Args:
        scores: the baseline's mean score of each problem, 0 to 1.
        dialogs: one dialog of each problem, for its labels. Labels that begin with `_` are ignored.

    Returns:
        Numbers from 0, in the order of the problems.
    """
    labels = [
        {name: value for name, value in dialog.labels if not name.startswith("_")}
        for dialog in dialogs
    ]
    chosen = [
        name
        for name in sorted({name for of_dialog in labels for name in of_dialog})
        if len({of_dialog.get(name) for of_dialog in labels}) <= _MOST_VALUES
    ]
    keys = [
        (round(score * _SCORE_STEPS), *(of_dialog.get(name, "") for name in chosen))
        for score, of_dialog in zip(scores, labels, strict=True)
    ]
    counts = Counter(keys)
    keys = [key if counts[key] >= _SMALLEST * len(keys) else key[:1] for key in keys]
    numbers = {key: number for number, key in enumerate(sorted(set(keys)))}
    return np.array([numbers[key] for key in keys], dtype=int)
