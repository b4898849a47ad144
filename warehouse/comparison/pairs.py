"""All metrics of two runs, paired: read from the scores, and written as rows of `comparisons`.

A row also has the drift of the runs' judges: how their answers on bundled cases changed between the
two nights.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from schemas.grouping import grouped
from schemas.night.decision import BOOTSTRAP, SEQUENCE
from warehouse import sql_files
from warehouse.comparison.decisions import Decisions, MetricDecision
from warehouse.comparison.paired import Paired, adjusted, paired
from warehouse.comparison.runs import ComparedRun

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


DriftCase = tuple[str, str, int]
"""(rubric, its version, number of the case)."""
DriftAnswer = tuple[float | None, str | None, str | None]
"""(value, label, reason for a missing value)."""


@dataclass(frozen=True)
class JudgeDrift:
    """Change of the same judges' answers between two nights, on the cases bundled with Parley.

    All fields are None if the run has no judge, or the nights have no case in common.
    """

    n: int | None = None
    n_changed: int | None = None
    mean_shift: float | None = None

    @property
    def columns(self) -> dict[str, float | None]:
        """Return the columns of `comparisons` and `history` with these numbers."""
        return {f"judge_{name}": number for name, number in asdict(self).items()}


class DriftAnswers:
    """All answers of `judge_drift_answers`, by night and judge."""

    def __init__(self, connection: "DuckDBPyConnection") -> None:
        self._answers: dict[tuple[str, str], dict[tuple[DriftCase, str], DriftAnswer]] = {}
        for night_id, judge, rubric, version, number, dimension, *answer in connection.execute(
            "select night_id, judge, rubric, rubric_version, case_number, dimension, value, "
            "label, unscored_reason"
            " from judge_drift_answers order by all"
        ).fetchall():
            value, label, reason = answer
            answers = self._answers.setdefault((night_id, judge), {})
            answers[(rubric, version, number), dimension] = (value, label, reason)

    def between(self, run: ComparedRun, other: ComparedRun) -> JudgeDrift:
        """Return how much the answers of both runs' common judges changed between their nights."""
        cases: set[tuple[str, DriftCase]] = set()
        changed: set[tuple[str, DriftCase]] = set()
        shifts: list[float] = []
        for judge in sorted(run.judges & other.judges):
            now, before = (
                self._answers.get((compared_run.night_id, judge), {})
                for compared_run in (run, other)
            )
            for place in sorted(now.keys() & before.keys()):
                cases.add((judge, place[0]))
                if now[place] != before[place]:
                    changed.add((judge, place[0]))
                new, old = now[place][0], before[place][0]
                if new is not None and old is not None:
                    shifts.append(new - old)
        if not cases:
            return JudgeDrift()
        return JudgeDrift(
            len(cases), len(changed), math.fsum(shifts) / len(shifts) if shifts else None
        )


Directions = Mapping[str, str]
"""Metric -> `higher` or `lower`, whichever is better. A metric without an entry has no gain or
loss."""
Row = dict[str, Any]


def compare_scores(
    connection: "DuckDBPyConnection", run_id: str, other_run_id: str
) -> dict[str, Paired]:
    """Pair the scores of two published runs by dialogue, sample, turn and instruction.

    Returns:
        Metric -> comparison, sorted by metric.
    """
    rows = connection.execute(
        sql_files.load("queries", "score_pairs").statement,
        {"run_id": run_id, "other_run_id": other_run_id},
    ).fetchall()
    by_metric = grouped((row[0], row[1:]) for row in rows)
    pairs = {metric: _paired(by_metric[metric]) for metric in sorted(by_metric)}
    q_values = adjusted({metric: pair.p_value for metric, pair in pairs.items()})
    return {metric: replace(pair, q_value=q_values[metric]) for metric, pair in pairs.items()}


def _paired(rows: Sequence[tuple[Any, ...]]) -> Paired:
    both = [
        (value, other, problem)
        for *_, problem, value, other in rows
        if value is not None and other is not None
    ]
    ours, theirs = (sorted({row[at] for row in rows if row[at] is not None}) for at in (0, 1))
    if ours and theirs and ours != theirs:
        versions = [" and ".join(map(str, numbers)) for numbers in (ours, theirs)]
        pair = Paired(
            undefined_because=(
                f"version {versions[0]} of the metric here, version {versions[1]} there"
            )
        )
    else:
        pair = paired(
            [value for value, _, _ in both],
            [other for _, other, _ in both],
            [problem for *_, problem in both],
        )
    n_values, n_others = (sum(row[at] is not None for row in rows) for at in (-2, -1))
    return replace(pair, n_unpaired=n_values - len(both), n_unpaired_other=n_others - len(both))


class Comparisons:
    """Comparisons of published runs, with the night's judges' drift and the early decisions.

    Args:
        directions: metric -> which direction is better.
    """

    def __init__(self, connection: "DuckDBPyConnection", directions: Directions) -> None:
        self._connection, self._directions = connection, directions
        self.drift_answers, self._decisions = DriftAnswers(connection), Decisions(connection)

    def rows(
        self,
        run: ComparedRun,
        other: ComparedRun,
        against: str,
        pairs: Mapping[str, Paired] | None = None,
    ) -> list[Row]:
        """Return rows of `comparisons`, one for each metric, without events.

        `warehouse.comparison.events` adds the events.

        Args:
            against: reason for the comparison, such as `predecessor`.
            pairs: metric -> comparison. None: compare the scores of both runs now.
        """
        pairs = pairs or compare_scores(self._connection, run.run_id, other.run_id)
        decided = self._decisions.between(run, other)
        drift = self.drift_answers.between(run, other)
        return [
            {
                **run.columns,
                "against": against,
                "other_run_id": other.run_id,
                "other_model": other.model,
                "other_revision": other.revision,
                "metric": metric,
                "better": self._directions.get(metric),
                **asdict(pair),
                **_decision(decided.by_metric.get(metric), decided.why_uncovered),
                "threshold": run.threshold_of(metric),
                "night_q": None,
                "event": None,
                **drift.columns,
                "also_differs": list(run.differs(other)),
                "sandbox": run.sandbox,
                "isolated": run.isolated and other.isolated,
            }
            for metric, pair in pairs.items()
        ]


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


def pair_of(row: Row) -> Paired:
    """Return the numbers of a row of `comparisons`, as `Comparisons.rows` received them.

    Numbers that a decision replaced are not restored.
    """
    return Paired(**{field.name: row[field.name] for field in fields(Paired)})
