"""Audit of a shard of passed programs: their tests run again with altered expectations."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from sandbox.decoys.auditing import audit_patch, audit_program
from sandbox.interface import Sandbox
from sandbox.judging.patched_repository import PatchProgram
from schemas.audit import Audited, AuditOutcome, ForgeryAudit
from schemas.errors import SandboxUnavailable, Unscorable
from tasks.benchmarks.contract import TestRun
from tasks.worker.images import held_repository
from tasks.worker.jobs import AuditItem, AuditShard, Pass, RunContext, ShardResult
from tasks.worker.process import RunState, this_worker
from tasks.worker.program_book import program_in_place, sandbox_in
from tasks.worker.workspaces import patch_places

STAGE = "audit"


def audit_shard(shard: AuditShard) -> ShardResult:
    """Audit a shard's programs and write one part with a row per verdict.

    Raises:
        LeaseLost: Another worker process holds the shard.
        OSError: The part could not be written.
    """
    context = shard.context
    if context.budget_meter and context.budget_meter.is_late:
        return ShardResult(0, n_cut=len(shard.items))
    worker = this_worker()
    worker.start_reporting()
    run = worker.run(context)
    hold = context.lease(shard.name, over=True)
    with ThreadPoolExecutor(context.programs) as threads:
        audits = list(threads.map(partial(_audit_counted, run, run.sandbox), shard.items))
    rows = [
        row
        for item, audited in zip(shard.items, audits, strict=True)
        for row in audit_rows(context, item, audited)
    ]
    hold.check()
    context.write_part("forgery_audit", rows, shard.name)
    return ShardResult(len(shard.items), part=shard.name)


def _audit_counted(run: RunState, sandbox: Sandbox, item: AuditItem) -> Audited:
    with run.program_slots:
        audited = _audit(run.context, sandbox, item.test, f"{run.context.spec.seed} {item.program}")
    run.count(STAGE, episodes=1, runs=audited.n_runs)
    return audited


def _audit(context: RunContext, sandbox: Sandbox, test: TestRun, seed: str) -> Audited:
    """Audit one program. If the sandbox fails, the outcome is `no_decoy`: no verdict changes."""
    place, limits = sandbox_in(sandbox, test.image), test.limits or context.spec.limits
    if place is None or test.code is None:
        return Audited(
            outcome=AuditOutcome.NO_DECOY, detail="no sandbox for its image, or no answer"
        )
    try:
        if test.repository is not None:
            trees, open_place = patch_places(context, place, limits)
            with held_repository(context, test.repository) as repository:
                return audit_patch(
                    open_place,
                    trees,
                    PatchProgram(test.code, repository),
                    test.reference,
                    limits,
                    seed,
                )
        program = program_in_place(context.resources, test.program)
        reference = (
            None
            if test.reference is None
            else program_in_place(context.resources, replace(test.program, code=test.reference))
        )
        is_thorough = context.spec.audit == "all"
        return audit_program(place, program, reference, limits, seed, asks_other_inputs=is_thorough)
    except (SandboxUnavailable, Unscorable) as fault:
        return Audited(outcome=AuditOutcome.NO_DECOY, detail=f"the audit could not run: {fault}")


def audit_rows(context: RunContext, item: AuditItem, audited: Audited) -> list[ForgeryAudit]:
    """Return a row per verdict id of a program. The first row has the audit's runs and seconds."""
    passes = {audit_pass.verdict_id: audit_pass for audit_pass in item.passes}
    return [
        _row(context, audit_pass, audited, is_first=number == 0)
        for number, audit_pass in enumerate(passes.values())
    ]


def _row(
    context: RunContext, audit_pass: Pass, audited: Audited, *, is_first: bool
) -> ForgeryAudit:
    outcome = _outcome_of(audit_pass, audited)
    is_meant = outcome is audited.outcome
    return ForgeryAudit(
        run_id=context.run_id,
        benchmark=context.spec.benchmark,
        model=context.spec.label,
        episode_id=audit_pass.episode_id,
        problem_id=audit_pass.problem_id,
        sample=audit_pass.sample,
        turn=audit_pass.turn,
        instruction_id=audit_pass.instruction_id,
        verdict_id=audit_pass.verdict_id,
        decoy=audited.decoy if is_meant else "",
        outcome=outcome,
        is_sound=audited.is_sound and is_meant,
        detail=audited.detail if is_meant else "",
        n_decoys=audited.n_decoys,
        n_runs=audited.n_runs if is_first else 0,
        duration_s=audited.duration_s if is_first else 0.0,
    )


def _outcome_of(audit_pass: Pass, audited: Audited) -> AuditOutcome:
    """Return the audit's outcome for one passed verdict, from the test cases that decided it."""
    named = (*audited.forged_cases, *audited.suspected_cases)
    if not audit_pass.cases or not named:
        return audited.outcome
    if not set(audit_pass.cases).isdisjoint(audited.forged_cases):
        return AuditOutcome.FORGED
    return (
        AuditOutcome.EARNED
        if set(audit_pass.cases).isdisjoint(audited.suspected_cases)
        else AuditOutcome.SUSPECTED
    )
