"""Baseline of an early decision: the run to compare with, and the scores of this baseline run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from schemas.content_id import canonical_json
from schemas.episode import Score
from schemas.errors import ConfigError
from schemas.lake.records import RunRecord, utc_now
from schemas.night.decision import PREDECESSOR, ComparisonRule, DecisionRule
from tasks.storage.parquet_store import Lake, listing_again
from warehouse.comparison.runs import ComparedRun, in_order, nearest_run, runs_named

if TYPE_CHECKING:
    from tasks.planning.plan import RunPlan

Place = tuple[str, int, int, str]
"""Position of a score: (dialog, sample, turn, instruction)."""
Scored = Mapping[str, Mapping[str, Mapping[Place, float]]]
"""Values of scores by metric, problem and position."""


class NoBaseline(ConfigError):
    """The baseline that a decision names has no finished run.

    Another run of the same night may become the baseline.
    """


@dataclass(frozen=True)
class Baseline:
    """Run to compare with, and its scores."""

    run: ComparedRun
    scores: Scored
    versions: Mapping[str, int]
    """Version of each metric with which the baseline was scored."""


def find_baseline(plan: "RunPlan", rule: DecisionRule) -> Baseline | None:
    """Find the baseline among the finished runs in the lake.

    Returns:
        The baseline; None if there is no predecessor yet, or if the run itself is the baseline.

    Raises:
        NoBaseline: no finished run that is comparable to this run has the baseline's name.
    """
    other = _chosen(_own_run(plan), rule, _finished_runs(plan.lake, benchmark=plan.spec.benchmark))
    return None if other is None else Baseline(other, *_read_scores(plan, other))


def await_baselines(plans: Sequence["RunPlan"]) -> None:
    """Set `awaits` of each plan whose decision compares with another run of the same night."""
    now = utc_now()
    own = {
        plan.run_id: replace(_own_run(plan), first_seen=f"{now} {number:06}")
        for number, plan in enumerate(plans)
    }
    by_id = {plan.run_id: plan for plan in plans}
    pending = {plan.run_id for plan in plans if not plan.is_finished()}
    finished = {
        name: _finished_runs(plan.lake, benchmark=name)
        for name, plan in {plan.spec.benchmark: plan for plan in plans}.items()
    }
    for plan in plans:
        rule, run = plan.request.decide, own[plan.run_id]
        if rule is None or _is_named(run, rule.baseline):
            continue
        runs = [other for other in finished[plan.spec.benchmark] if other.run_id not in pending]
        try:
            other = _chosen(run, rule, [*runs, *(own[name] for name in pending)])
        except NoBaseline as error:
            plan.no_baseline = error  # It also names runs of the night with other options.
            continue
        if (
            other is not None
            and other.run_id in pending
            and not _waits_for(by_id, other.run_id, plan.run_id)
        ):
            plan.awaits = other.run_id


def unknown_baselines(plans: Sequence["RunPlan"]) -> dict[str, list[str]]:
    """Map each baseline that names no finished run and no plan to the titles of its runs."""
    titles = dict[str, list[str]]()
    for plan in plans:
        rule = plan.request.comparison
        if rule is not None and rule.baseline is not None:
            titles.setdefault(rule.baseline, []).append(
                f"{plan.spec.full_setting} · {plan.spec.label}"
            )
    if not titles:
        return {}
    runs = [*map(_own_run, plans), *_finished_runs(plans[0].lake)]
    return {
        name: of for name, of in titles.items() if not any(_is_named(run, name) for run in runs)
    }


def _waits_for(plans: Mapping[str, "RunPlan"], run_id: str | None, other: str) -> bool:
    """Return True if a run awaits the other one, directly or through further runs.

    Two runs that await each other would never begin.
    """
    while run_id is not None and run_id != other:
        run_id = plans[run_id].awaits
    return run_id == other


def _chosen(
    own: ComparedRun, rule: DecisionRule, runs: Sequence[ComparedRun]
) -> ComparedRun | None:
    alike = [run for run in runs if run.condition == own.condition and run.run_id != own.run_id]
    return (
        _predecessor(own, alike)
        if rule.baseline == PREDECESSOR
        else nearest_run(own, _named(rule.baseline, alike, runs, own))
    )


def _is_named(run: ComparedRun, name: str) -> bool:
    return name in run.names or run.run_id.startswith(name)


def _named(
    name: str, alike: Sequence[ComparedRun], runs: Sequence[ComparedRun], own: ComparedRun
) -> tuple[ComparedRun, ...]:
    matches = runs_named(alike, name)
    if matches or _is_named(own, name):
        return tuple(run for run in matches if run.checkpoint != own.checkpoint)
    unlike = runs_named(runs, name)
    others = " (it has runs of other settings, data or options)" if unlike else ""
    for run in unlike:
        if (run.setting, run.dataset_version) == (own.setting, own.dataset_version):
            others = f" (options differ: {run.differing_options(own)})"
    models = sorted({run.model for run in alike if run.night_id})  # without those of this night
    raise NoBaseline(
        f"decide: baseline {name!r} has no finished run of {own.setting} with equal data and "
        f"options{others}. Evaluate it on all problems first, or in the same night. "
        f"Models with such a run: {', '.join(models[:20]) or 'none'}"
    )


def _predecessor(own: ComparedRun, alike: Iterable[ComparedRun]) -> ComparedRun | None:
    series = [run for run in alike if (run.family, run.series) == (own.family, own.series)]
    checkpoints = in_order([*series, own])
    at = next(number for number, members in enumerate(checkpoints) if own in members)
    return nearest_run(own, checkpoints[at - 1]) if at else None


def _finished_runs(lake: Lake, **keys: str) -> list[ComparedRun]:
    records = lake.read("runs", RunRecord, **keys)
    rules = {rule.run_id: rule for rule in lake.read("comparison_rules", ComparisonRule, **keys)}
    return [
        _compared(record, rule.family if (rule := rules.get(record.run_id)) else record.model)
        for record in records
        if record.status == "finished"
    ]


_RECORDED = tuple(
    field.name for field in fields(ComparedRun) if field.name in RunRecord.model_fields
)
_UNCOMPARED: dict[str, Any] = {"baseline": None, "threshold": None, "thresholds": None}
"""Comparison rules of a run, which a decision does not read."""


def _compared(record: RunRecord, family: str) -> ComparedRun:
    values = {name: getattr(record, name) for name in _RECORDED}
    return ComparedRun(**values, **_UNCOMPARED, first_seen=record.started_at, family=family)


def _own_run(plan: "RunPlan") -> ComparedRun:
    spec, now = plan.spec, utc_now()
    rules = plan.lake.read("comparison_rules", ComparisonRule, **plan.keys)
    return ComparedRun(
        **_UNCOMPARED,
        run_id=plan.run_id,
        night_id="",
        benchmark=spec.benchmark,
        setting=spec.full_setting,
        dataset_version=spec.dataset_version,
        model=spec.label,
        revision=spec.subject.revision,
        spec_json=canonical_json(spec),
        sandbox=spec.sandbox,
        isolated=plan.isolated,
        task_share=None,
        subsample_seed=None,
        finished_at=now,
        first_seen=now,
        family=plan.request.model.family or (rules[0].family if rules else spec.label),
    )


def _read_scores(plan: "RunPlan", other: ComparedRun) -> tuple[Scored, Mapping[str, int]]:
    keys = {"benchmark": other.benchmark, "model": other.model}
    scores = plan.lake.read("scores", Score, **keys, run_id=other.run_id)

    def dialogs() -> dict[str, str]:
        rows = plan.lake.read_arrow(
            "episodes", plan.lake.parts("episodes", **keys), ["episode_id", "dialog_id"]
        )
        return dict(zip(rows["episode_id"].to_pylist(), rows["dialog_id"].to_pylist(), strict=True))

    return by_place(scores, listing_again(dialogs)), {
        score.metric: score.metric_version for score in scores
    }


def by_place(scores: Iterable[Score], dialog_of: Mapping[str, str]) -> Scored:
    """Group the values of scores by metric, problem and position.

    Scores without a value are left out.

    Args:
        scores: scores of one run.
        dialog_of: maps each episode to its dialog.
    """
    values: dict[str, dict[str, dict[Place, float]]] = {}
    for score in scores:
        if score.value is not None:
            place = (
                dialog_of[score.episode_id],
                score.sample,
                score.turn,
                score.instruction_id or "",
            )
            of_metric = values.setdefault(score.metric, {})
            of_metric.setdefault(score.problem_id, {})[place] = score.value
    return values
