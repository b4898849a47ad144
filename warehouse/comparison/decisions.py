"""Early decisions about runs, before all their tasks were played: the table `decisions`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warehouse.comparison.runs import ComparedRun

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BETTER, WORSE, EQUIVALENT = "better", "worse", "equivalent"
BOOTSTRAP, SEQUENCE = "bootstrap", "sequence"
"""Kinds of intervals, as in `leaderboard.interval_kind`."""


@dataclass(frozen=True)
class MetricDecision:
    """Decision about one metric, and the ends of its confidence sequence."""

    decision: str | None
    low: float
    high: float

    @property
    def is_by_sequence(self) -> bool:
        """Return whether the confidence sequence decided.

        If all tasks were played without a decision, the pair is tested as any other.
        """
        return self.decision in (BETTER, WORSE, EQUIVALENT)


@dataclass(frozen=True)
class PairDecisions:
    """Decisions of a run against another one, and their effect on other statistics."""

    by_metric: Mapping[str, MetricDecision]
    why_uncovered: str | None
    """Reason why only the sequences of decisions are valid. None: both runs have all their tasks.
    """


class Decisions:
    """All decisions of published runs."""

    def __init__(self, connection: "DuckDBPyConnection") -> None:
        self._by_pair: dict[tuple[str, str], dict[str, MetricDecision]] = {}
        self._stopped: dict[str, list[str]] = {}
        for run_id, baseline, metric, decision, low, high in connection.execute(
            "select run_id, baseline_run_id, metric, decision, low, high from decisions "
            "order by all"
        ).fetchall():
            self._by_pair.setdefault((run_id, baseline), {})[metric] = MetricDecision(
                decision, low, high
            )
        for run_id, metric in connection.execute(
            "select run_id, metric from stopped_runs order by all"
        ).fetchall():
            self._stopped.setdefault(run_id, []).append(metric)

    def between(self, run: ComparedRun, other: ComparedRun) -> PairDecisions:
        """Return the decisions of a run against exactly this other run."""
        reasons = [
            (
                f"{stopped_run.model} stopped when "
                f"{' and '.join(self._stopped[stopped_run.run_id])} was decided"
            )
            for stopped_run in (run, other)
            if stopped_run.run_id in self._stopped
        ]
        why = (
            (
                f"{', '.join(reasons)}: intervals and tests of other scores are undefined "
                "(parley help decide)"
            )
            if reasons
            else None
        )
        return PairDecisions(self._by_pair.get((run.run_id, other.run_id), {}), why)
