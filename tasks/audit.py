"""Prefect task: audit a run's passes on Dask workers. Their tests run again with altered expectations (decoys)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prefect import task

from schemas.audit import AuditCounts, ForgeryAudit, audit_counts
from schemas.content_id import content_id
from tasks.cache_policy import OPTIONS
from tasks.driver.auditing import assembled, audit_shards, known_audits, pending
from tasks.driver.fan_out import closing_run, fan_out, living_workers
from tasks.planning.plan import RunPlan
from tasks.storage.journaling.tries import shard_try
from tasks.worker.audit_shard import audit_shard
from tasks.worker.jobs import AuditItem, AuditResult, RunContext

MAX_ATTEMPTS = 3
_LOST = "the audit could not run: its worker process died"


@dataclass
class AuditDone:
    """The stage's results."""

    rows: tuple[ForgeryAudit, ...] = ()
    is_cut: bool = False
    """The cap on time stopped it."""

    @property
    def counts(self) -> AuditCounts:
        """Counts of the rows."""
        return audit_counts(self.rows)


@task(name="audit", task_run_name="audit {title}", **OPTIONS)
def audit(
    plan: RunPlan,
    context: RunContext,
    items: Sequence[AuditItem],
    client: Any,
    title: str,
    on_result: Callable[[AuditResult], None] = lambda _: None,
) -> AuditDone:
    """Audit each program once, and write the run's `forgery_audit`. No program that the run has audited is audited again."""
    with closing_run(client, plan.run_id):
        for _ in range(MAX_ATTEMPTS):
            shards = audit_shards(context, pending(items, known_audits(plan)))
            if not shards:
                break
            with shard_try(plan.home.tries(plan.run_id), context.invocation):
                at_once = len(living_workers(client)) * (context.programs + 1)  # as for `execute`
                results, _ = fan_out(client, audit_shard, shards, on_result, at_once=at_once)
            if any(result.is_cut for result in results):
                return AuditDone(is_cut=True)
    rows = assembled(context, items, known_audits(plan), _LOST)
    name = content_id(rows)
    plan.lake.write_part("forgery_audit", rows, name, **plan.keys)
    plan.lake.keep_only("forgery_audit", (name,), **plan.keys)
    return AuditDone(rows)
