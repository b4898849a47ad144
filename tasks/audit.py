"""Stage `audit`: repeat passed tests with altered expectations (decoys), on Dask workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schemas.audit import AuditCounts, ForgeryAudit, audit_counts
from schemas.content_id import content_id
from tasks.driver.auditing import assembled, known_audits, pending
from tasks.driver.fan_out import even_shards
from tasks.driver.stage import Stage, StageResult
from tasks.planning.plan import RunPlan
from tasks.worker.audit_shard import audit_shard
from tasks.worker.jobs import AuditItem, AuditShard, RunContext

_LOST = "the audit could not run: its worker process died"
_PROGRAMS = 8
"""Number of programs per shard.

An audit takes several sandbox runs, and a killed worker loses its shards in flight.
"""


@dataclass
class AuditDone(StageResult):
    """Result of the stage `audit`."""

    rows: tuple[ForgeryAudit, ...] = ()

    @property
    def counts(self) -> AuditCounts:
        """Counts of the audits: by outcome, with sandbox runs and seconds."""
        return audit_counts(self.rows)


class AuditStage(Stage[AuditItem, AuditShard, AuditDone]):
    """Stage `audit`. Its pending items are programs with a passed verdict that has no audit.

    The stage writes `forgery_audit`. Each program is audited once.
    """

    name = "audit"
    run_shard = staticmethod(audit_shard)

    def __init__(
        self, plan: RunPlan, context: RunContext, client: Any, items: Sequence[AuditItem]
    ) -> None:
        super().__init__(plan, context, client, AuditDone())
        self._items = items

    def pending(self) -> list[AuditItem]:
        return pending(self._items, known_audits(self.plan))

    def shards(self, pending: Sequence[AuditItem], n_workers: int) -> list[AuditShard]:
        groups = even_shards(pending, _PROGRAMS)
        return [
            AuditShard(self.context, content_id([item.program for item in group]), group)
            for group in groups
        ]

    def keep(self) -> None:
        if self.result.is_cut:
            return
        rows = self.result.rows = assembled(
            self.context, self._items, known_audits(self.plan), _LOST
        )
        name = content_id(rows)
        self.plan.lake.write_part("forgery_audit", rows, name, **self.plan.keys)
        self.plan.lake.keep_only("forgery_audit", (name,), **self.plan.keys)
