"""Stage `judge`: judge a run's dialogues, on Dask workers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.content_id import content_id
from schemas.verdict import JudgeVerdict
from tasks.driver.fan_out import SHARDS_IN_FLIGHT
from tasks.driver.judging import Judgements, WantedJudgement, judge_shards
from tasks.driver.stage import Stage, StageResult
from tasks.planning.plan import RunPlan
from tasks.worker.budget_meter import BudgetMeter
from tasks.worker.jobs import JudgeContext, JudgeJob, JudgeShard
from tasks.worker.judge_shard import judge_shard


@dataclass
class Judged(StageResult):
    """Result of the stage `judge`.

    If a cap of the budget stopped the stage, the judges' answers are in the log and not yet in the
    table.
    """

    rows: tuple[JudgeVerdict, ...] = ()
    due: frozenset[tuple[str, int, str, str]] = frozenset()
    """(episode id, turn, rubric, dimension) of every required judgement."""
    n_new: int = 0
    """Number of judgements that arrived in this invocation."""
    n_reused: int = 0
    """Number of judgements on the run's dialogues that were stored before."""
    new_rows: tuple[JudgeVerdict, ...] = field(default=(), repr=False)
    """One row per judgement that arrived in this invocation, with its cost."""


class JudgeStage(Stage[JudgeJob, JudgeShard, Judged]):
    """Stage `judge`. Its pending items are judgements that no run on the benchmark has stored.

    The stage writes `judge_verdicts`. Equal prompts to one judge are sent once, whichever episodes
    and runs need them.

    Args:
        reach: Prepares the judges, and returns their context with a Dask client. Called if
            something is pending.
        budget_meter: Meter that enforces the budget caps of the invocation; None without caps.
    """

    name = "judge"
    asks_models = True
    run_shard = staticmethod(judge_shard)

    def __init__(
        self,
        plan: RunPlan,
        judgements: Judgements,
        wanted: Sequence[WantedJudgement],
        reach: Callable[[], tuple[JudgeContext, Any]],
        budget_meter: BudgetMeter | None = None,
    ) -> None:
        super().__init__(plan, None, None, Judged(due=judgements.due(wanted)))
        self._judgements, self._wanted = judgements, wanted
        self._reach, self._budget_meter = reach, budget_meter

    def pending(self) -> list[JudgeJob]:
        pending = self._judgements.pending(self._wanted, self._judgements.known_judgements())
        self.result.is_cut = bool(pending and self._budget_meter and self._budget_meter.is_over)
        return [] if self.result.is_cut else pending

    def reach(self) -> None:
        self.context, self.client = self._reach()

    def shards(self, pending: Sequence[JudgeJob], n_workers: int) -> list[JudgeShard]:
        return judge_shards(self.context, pending, n_workers)

    def dealing(self, shards: Sequence[JudgeShard], n_workers: int) -> dict[str, Any]:
        return {
            "at_once": SHARDS_IN_FLIGHT + 8,
            "in_turn": True,
        }  # Some more shards than are in flight, so that no worker waits for the driver.

    def keep(self) -> None:
        plan, result = self.plan, self.result
        judgements, before = self._judgements.known_judgements(), self._judgements.earlier.keys()
        if result.is_cut:
            result.n_new = len(judgements.keys() - before)
            return
        result.rows = tuple(self._judgements.rows(self._wanted, judgements))
        by_id = {row.judgement_id: row for row in result.rows}
        result.new_rows = tuple(
            row for name, row in by_id.items() if name not in before and name in judgements
        )
        result.n_new, result.n_reused = len(result.new_rows), len(by_id.keys() & before)
        name = content_id(
            [
                len(result.rows),
                *(
                    (row.judgement_id, row.episode_id, row.turn, row.dimension)
                    for row in result.rows
                ),
            ]
        )
        plan.lake.write_part("judge_verdicts", result.rows, name, **plan.keys)
        plan.lake.keep_only("judge_verdicts", (name,), **plan.keys)
        self._judgements.remove_log()
