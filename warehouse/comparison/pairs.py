"""All metrics of two runs, paired: read from the scores, and written as rows of `comparisons`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warehouse import sql_files
from warehouse.comparison.decisions import BOOTSTRAP, SEQUENCE, MetricDecision, PairDecisions
from warehouse.comparison.judge_moves import JudgeMove
from warehouse.comparison.paired import Paired, adjusted, paired
from warehouse.comparison.runs import ComparedRun

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Directions = Mapping[str, str]
"""Metric -> `higher` or `lower`, whichever is better. A metric without an entry has no gain or
loss."""
Row = dict[str, Any]


@dataclass(frozen=True)
class MetricPair:
    """One metric of two runs."""

    metric: str
    paired: Paired
    q_value: float | None
    """p-value, adjusted over the metrics of this pair of runs."""
    n_unpaired: int
    """Number of scores that only the compared run has, and not the other run."""
    n_unpaired_other: int
    """Number of scores that only the other run has."""


def compare_scores(
    connection: "DuckDBPyConnection", run_id: str, other_run_id: str
) -> tuple[MetricPair, ...]:
    """Pair the scores of two published runs by dialogue, sample, turn and instruction.

    The pairs are sorted by metric.
    """
    rows = connection.execute(
        sql_files.load("queries", "score_pairs").statement,
        {"run_id": run_id, "other_run_id": other_run_id},
    ).fetchall()
    by_metric: dict[str, list[tuple[Any, ...]]] = {}
    for metric, *row in rows:
        by_metric.setdefault(metric, []).append(tuple(row))
    paired_by_metric = {metric: _paired(of_metric) for metric, of_metric in by_metric.items()}
    q_values = adjusted({metric: numbers.p_value for metric, numbers in paired_by_metric.items()})
    return tuple(
        MetricPair(
            metric,
            paired_by_metric[metric],
            q_values[metric],
            sum(value is not None and other is None for *_, value, other in by_metric[metric]),
            sum(value is None and other is not None for *_, value, other in by_metric[metric]),
        )
        for metric in sorted(paired_by_metric)
    )


def _paired(rows: Sequence[tuple[Any, ...]]) -> Paired:
    ours, theirs = (sorted({row[at] for row in rows if row[at] is not None}) for at in (0, 1))
    if ours and theirs and ours != theirs:
        versions = [" and ".join(map(str, numbers)) for numbers in (ours, theirs)]
        return Paired(
            undefined_because=(
                f"version {versions[0]} of the metric here, version {versions[1]} there"
            )
        )
    both = [
        (value, other, problem)
        for *_, problem, value, other in rows
        if value is not None and other is not None
    ]
    return paired(
        [value for value, _, _ in both],
        [other for _, other, _ in both],
        [problem for *_, problem in both],
    )


def comparison_rows(
    run: ComparedRun,
    other: ComparedRun,
    against: str,
    pairs: Sequence[MetricPair],
    directions: Directions,
    move: JudgeMove,
    decided: PairDecisions,
) -> list[Row]:
    """Return rows of `comparisons`, one for each metric, without events.

    `warehouse.comparison.events` adds the events.

    Args:
        move: how much the judges' answers on the drift cases changed between both runs.
        decided: decisions of the run against the other one.
    """
    return [
        {
            "run_id": run.run_id,
            "night_id": run.night_id,
            "benchmark": run.benchmark,
            "setting": run.setting,
            "dataset_version": run.dataset_version,
            "model": run.model,
            "revision": run.revision,
            "family": run.family,
            "against": against,
            "other_run_id": other.run_id,
            "other_model": other.model,
            "other_revision": other.revision,
            "metric": pair.metric,
            "better": directions.get(pair.metric),
            **_numbers(pair),
            **_decision(decided.by_metric.get(pair.metric), decided.why_uncovered),
            "threshold": run.threshold_of(pair.metric),
            "night_q": None,
            "event": None,
            "judge_n": move.n,
            "judge_n_changed": move.n_changed,
            "judge_mean_shift": move.mean_shift,
            "also_differs": list(run.differs(other)),
            "sandbox": run.sandbox,
            "isolated": run.isolated and other.isolated,
        }
        for pair in pairs
    ]


def _numbers(pair: MetricPair) -> Row:
    paired = pair.paired
    return {
        "mean": paired.mean,
        "other_mean": paired.other_mean,
        "difference": paired.difference,
        "ci_low": paired.low,
        "ci_high": paired.high,
        "n": paired.n,
        "n_problems": paired.n_problems,
        "n_unpaired": pair.n_unpaired,
        "n_unpaired_other": pair.n_unpaired_other,
        "test": paired.test,
        "p_value": paired.p_value,
        "q_value": pair.q_value,
        "mde": paired.mde,
        "undefined_because": paired.undefined_because,
    }


def _decision(decided: MetricDecision | None, why_uncovered: str | None) -> Row:
    """Return the columns that a decision replaces.

    Bootstrap and test are valid for one look at the data, and a run that stopped early had many.
    """
    decision = None if decided is None else decided.decision
    if decided is not None and decided.is_by_sequence:
        ends = {
            "ci_low": decided.low,
            "ci_high": decided.high,
            "interval_kind": SEQUENCE,
            "decision": decision,
        }
        return ends | dict.fromkeys(("test", "p_value", "q_value", "mde"))
    if why_uncovered is None:
        return {"interval_kind": BOOTSTRAP, "decision": decision}
    none = dict.fromkeys(
        ("ci_low", "ci_high", "interval_kind", "test", "p_value", "q_value", "mde")
    )
    return none | {"decision": decision, "undefined_because": why_uncovered}


def pair_of(row: Mapping[str, Any]) -> MetricPair:
    """Return the numbers of a row of `comparisons`, as `comparison_rows` received them.

    Numbers that a decision replaced are not restored.
    """
    numbers = Paired(
        n=row["n"],
        n_problems=row["n_problems"],
        mean=row["mean"],
        other_mean=row["other_mean"],
        difference=row["difference"],
        low=row["ci_low"],
        high=row["ci_high"],
        test=row["test"],
        p_value=row["p_value"],
        mde=row["mde"],
        undefined_because=row["undefined_because"],
    )
    return MetricPair(
        row["metric"], numbers, row["q_value"], row["n_unpaired"], row["n_unpaired_other"]
    )
