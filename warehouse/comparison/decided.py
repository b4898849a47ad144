"""How runs were decided before all their tasks were asked: the table `decisions`, by pair of runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warehouse.comparison.runs import ComparedRun

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BETTER, WORSE, EQUIVALENT = "better", "worse", "equivalent"
BOOTSTRAP, SEQUENCE = "bootstrap", "sequence"
"""Kinds of intervals, as `leaderboard` names them."""


@dataclass(frozen=True)
class Decided:
    """Decision about one metric, and the ends of its confidence sequence."""

    decision: str | None
    low: float
    high: float

    @property
    def is_by_sequence(self) -> bool:
        """Tell whether the sequence decided. Where all was asked without a decision, the pair is tested as any other."""
        return self.decision in (BETTER, WORSE, EQUIVALENT)


@dataclass(frozen=True)
class PairDecisions:
    """How a run was decided against another one, and what their early stop means for everything else about the two."""

    by_metric: Mapping[str, Decided]
    why_uncovered: str | None
    """Why no interval or test holds that is not a decision's sequence; None where both runs have all that they were to ask."""


class Decisions:
    """All decisions of published runs."""

    def __init__(self, connection: "DuckDBPyConnection") -> None:
        self._found: dict[tuple[str, str], dict[str, Decided]] = {}
        self._stopped: dict[str, list[str]] = {}
        for run_id, baseline, metric, decision, low, high in connection.execute(
            "select run_id, baseline_run_id, metric, decision, low, high from decisions order by all"
        ).fetchall():
            self._found.setdefault((run_id, baseline), {})[metric] = Decided(decision, low, high)
        for run_id, metric in connection.execute(
            "select run_id, metric from stopped_runs order by all"
        ).fetchall():
            self._stopped.setdefault(run_id, []).append(metric)

    def between(self, run: ComparedRun, other: ComparedRun) -> PairDecisions:
        """Return the decisions of a run against that very other run."""
        stopped = [
            f"{one.model} stopped once {' and '.join(self._stopped[one.run_id])} had decided it"
            for one in (run, other)
            if one.run_id in self._stopped
        ]
        why = (
            f"{', '.join(stopped)}: no interval or test of other scores holds there (parley help decide)"
            if stopped
            else None
        )
        return PairDecisions(self._found.get((run.run_id, other.run_id), {}), why)
