"""Drift of a run's judges: how their answers on bundled cases changed between two nights."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from warehouse.comparison.runs import ComparedRun

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Case = tuple[str, str, int]
"""(rubric, its version, number of the case)."""
Answer = tuple[float | None, str | None, str | None]
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
        self._answers: dict[tuple[str, str], dict[tuple[Case, str], Answer]] = {}
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
        cases: set[tuple[str, Case]] = set()
        changed: set[tuple[str, Case]] = set()
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
