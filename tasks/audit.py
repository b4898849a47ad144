"""Stage `audit`: repeat passed tests with altered expectations (decoys), on Dask workers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from schemas.audit import (
    AUDIT_SAMPLE,
    AuditCounts,
    Audited,
    AuditMode,
    AuditOutcome,
    ForgeryAudit,
    audit_counts,
)
from schemas.content_id import content_id
from schemas.episode import Episode
from schemas.verdict import Outcome
from tasks.driver.fan_out import even_shards
from tasks.execute import item_of
from tasks.planning.plan import RunPlan
from tasks.stage import Stage, StageResult
from tasks.worker.audit_shard import audit_rows, audit_shard
from tasks.worker.execute_shard import id_of, test_runs
from tasks.worker.jobs import AuditItem, AuditShard, Pass, RunContext

_COLUMNS = ("episode_id", "turn", "instruction_id", "outcome", "verdict_id")

VerdictKey = tuple[str, int, str]
"""Episode, turn and instruction of a verdict."""


def drawn_programs(
    plan: RunPlan, context: RunContext, episodes: Sequence[Episode], verdicts: pa.Table
) -> list[AuditItem]:
    """Return the passed programs to audit, in the order in which the seed draws them.

    Args:
        verdicts: The run's test verdicts as the tests gave them, before the audit.
    """
    passed = _passed(verdicts)
    programs: dict[str, tuple[AuditItem, list[Pass]]] = {}
    for episode in episodes:
        if episode.episode_id in passed:
            for program, item, audit_pass in _passes(
                plan, context, episode, passed[episode.episode_id]
            ):
                programs.setdefault(program, (item, []))[1].append(audit_pass)
    order = drawn(programs, plan.spec.audit, plan.spec.seed)
    return [AuditItem(name, programs[name][0].test, tuple(programs[name][1])) for name in order]


def drawn(programs: Iterable[str], mode: AuditMode, seed: int) -> list[str]:
    """Return the programs to audit, in an order that depends on the seed.

    New programs of a growing run do not change the order of the earlier ones.
    """
    order = sorted(programs, key=lambda program: content_id([seed, program]))
    return {"none": [], "sample": order[:AUDIT_SAMPLE], "all": order}[mode]


def _passed(verdicts: pa.Table) -> Mapping[str, Mapping[tuple[int, str], str]]:
    """Map each episode to its passed verdicts: (turn, instruction) -> verdict id."""
    verdict_ids: dict[str, dict[tuple[int, str], str]] = {}
    columns = (verdicts[name].to_pylist() for name in _COLUMNS)
    for episode_id, turn, instruction, outcome, verdict_id in zip(*columns, strict=True):
        if outcome == Outcome.PASSED.value and verdict_id is not None:
            verdict_ids.setdefault(episode_id, {})[turn, instruction] = verdict_id
    return verdict_ids


def _passes(
    plan: RunPlan, context: RunContext, episode: Episode, passed: Mapping[tuple[int, str], str]
) -> Iterable[tuple[str, AuditItem, Pass]]:
    for test in test_runs(context, item_of(plan, episode)):
        program = ""
        for name, cases in test.rows:
            verdict_id = passed.get((test.turn, name))
            if verdict_id is None:
                continue
            program = program or (id_of(context, test) or "" if cases else verdict_id)
            audit_pass = Pass(
                episode.episode_id,
                episode.problem_id,
                episode.sample,
                test.turn,
                name,
                verdict_id,
                cases,
            )
            yield program, AuditItem(program, test, ()), audit_pass


def known_audits(plan: RunPlan) -> dict[str, ForgeryAudit]:
    """Return the run's stored audits by verdict id."""
    rows = plan.lake.read("forgery_audit", ForgeryAudit, **plan.keys)
    return {row.verdict_id: row for row in sorted(rows, key=lambda row: row.n_runs)}


def pending(items: Iterable[AuditItem], audits: Mapping[str, ForgeryAudit]) -> list[AuditItem]:
    """Return the programs with at least one passed verdict that has no audit."""
    return [
        item
        for item in items
        if any(audit_pass.verdict_id not in audits for audit_pass in item.passes)
    ]


def assembled(
    context: RunContext,
    items: Iterable[AuditItem],
    audits: Mapping[str, ForgeryAudit],
    why_missing: str,
) -> tuple[ForgeryAudit, ...]:
    """Return a row of the table `forgery_audit` for each passed verdict.

    The rows of a program without an audit contain `why_missing`. Runs and seconds are counted once
    per program.
    """
    rows: list[ForgeryAudit] = []
    for item in items:
        lost = Audited(outcome=AuditOutcome.NO_DECOY, detail=why_missing)
        row_of = {row.verdict_id: row for row in audit_rows(context, item, lost)} | dict(audits)
        counted_ids: set[str] = set()
        for audit_pass in item.passes:
            place = {
                "episode_id": audit_pass.episode_id,
                "problem_id": audit_pass.problem_id,
                "sample": audit_pass.sample,
            }
            place |= {"turn": audit_pass.turn, "instruction_id": audit_pass.instruction_id}
            costs = {"n_runs": 0, "duration_s": 0.0} if audit_pass.verdict_id in counted_ids else {}
            rows.append(row_of[audit_pass.verdict_id].model_copy(update=place | costs))
            counted_ids.add(audit_pass.verdict_id)
    return tuple(rows)


def audited_passes(items: Iterable[AuditItem]) -> Mapping[VerdictKey, str]:
    """Map each passed verdict that must have a row to its verdict id."""
    passes = (audit_pass for item in items for audit_pass in item.passes)
    return {
        (audit_pass.episode_id, audit_pass.turn, audit_pass.instruction_id): audit_pass.verdict_id
        for audit_pass in passes
    }


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
