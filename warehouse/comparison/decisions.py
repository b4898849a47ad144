"""Early decisions about runs, before all their tasks were played: the table `decisions`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schemas.grouping import grouped
from warehouse.comparison.runs import ComparedRun

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


BETTER, WORSE, EQUIVALENT = "better", "worse", "equivalent"


@dataclass(frozen=True)
class MetricDecision:
    """Decision about one metric, and the ends of its confidence sequence."""

    decision: str | None
    low: float
    high: float

    @property
    def is_by_sequence(self) -> bool:
        """Return whether the confidence sequence decided.

        A pair whose tasks were all played without a decision is tested like any other pair.
        """
        return self.decision in (BETTER, WORSE, EQUIVALENT)


@dataclass(frozen=True)
class PairDecisions:
    """Decisions of a run against another one, and their effect on other statistics."""

    by_metric: Mapping[str, MetricDecision]
    why_uncovered: str | None
    """Reason why only the confidence sequences of the decisions are valid, and no other statistics.
    None: neither run stopped early."""


class Decisions:
    """All decisions of published runs."""

    def __init__(self, connection: "DuckDBPyConnection") -> None:
        self._by_pair: dict[tuple[str, str], dict[str, MetricDecision]] = {}
        for run_id, baseline, metric, decision, low, high in connection.execute(
            "select run_id, baseline_run_id, metric, decision, low, high from decisions "
            "order by all"
        ).fetchall():
            self._by_pair.setdefault((run_id, baseline), {})[metric] = MetricDecision(
                decision, low, high
            )
        stopped = connection.execute("select run_id, metric from stopped_runs order by all")
        self._stopped: dict[str, list[str]] = grouped(stopped.fetchall())

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


_FALSE_CLAIMS = 2
"""Maximum number of the claims `better`, `worse` and `equivalent` about one difference that are
jointly false. The data select the claim, so the e-value of a false decision has a mean of at most
this number."""
_DECISIONS = """
select runs.night_id, decisions.run_id, decisions.metric, decisions.alpha, decisions.e_value
from decisions inner join runs on decisions.run_id = runs.run_id order by all
"""


def hold_together(e_values: Sequence[float], alpha: float) -> list[bool]:
    """Select decisions of a night with an expected share of false ones of at most `alpha`.

    Args:
        e_values: evidence for each decision, as in `decisions.e_value`. A decision without a claim
            has 0.
    """
    from warehouse.comparison.sequential import e_bh  # imports numpy, which `parley show` lacks

    return e_bh(e_values, alpha / _FALSE_CLAIMS)


def refresh_night_decisions(connection: "DuckDBPyConnection") -> None:
    """Set `is_night_wide` in all rows of `decisions`.

    It is true for decisions that are selected at the night's smallest alpha. It is NULL without a
    claim, and if a night decided only one run.
    """
    nights = grouped(
        (night_id, row) for night_id, *row in connection.execute(_DECISIONS).fetchall()
    )
    connection.execute("update decisions set is_night_wide = null where is_night_wide is not null")
    for rows in nights.values():
        if len({run_id for run_id, *_ in rows}) > 1:
            chosen = hold_together(
                [e_value for *_, e_value in rows], min(alpha for *_, alpha, _ in rows)
            )
            connection.executemany(
                "update decisions set is_night_wide = ? where run_id = ? and metric = ? and "
                "decision in"
                " ('better', 'worse', 'equivalent')",
                [
                    [is_chosen, run_id, metric]
                    for is_chosen, (run_id, metric, *_) in zip(chosen, rows, strict=True)
                ],
            )
