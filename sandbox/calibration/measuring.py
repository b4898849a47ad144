"""Runs references in a sandbox: which pass, and how much CPU time the slowest takes."""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sandbox.calibration.references import Reference, known_faults
from sandbox.host.slots import alone, slot_count
from sandbox.interface import Sandbox
from sandbox.judging.function_tests import run_function_tests
from schemas.run import Limits
from schemas.verdict import Outcome, ProgramVerdict

_WIDE = Limits(cpu_s=60.0, wall_s=600.0)
"""Time that a slow machine may take for a reference and still be measured."""
_MEASURED_ALONE = 3
_SAY_CPU_TIME = "raise AssertionError('cpu-time %.3f' % (lambda t: t[0] + t[1] + t[2] + t[3])(__import__('os').times()))"
_CPU_TIME = re.compile(r"cpu-time (\d+\.\d+)")


@dataclass(frozen=True)
class Measured:
    """Results of the references. `failed` names failures that no known fault of the data explains, with their verdicts."""

    n_references: int
    n_passed: int
    n_known_faults: int
    failed: tuple[str, ...]
    slowest: str
    """Task id; empty where none passed."""
    slowest_cpu_s: float


def measure(sandbox: Sandbox, references: Sequence[Reference]) -> Measured:
    """Run all of them, several at once, then the longest ones again, each alone on this host, to read their CPU time.

    Raises:
        SandboxUnavailable: a program could not be run at all.
    """
    with ThreadPoolExecutor(2 * slot_count()) as threads:
        verdicts = list(threads.map(lambda reference: _run(sandbox, reference), references))
    both = list(zip(references, verdicts, strict=True))
    passed = [(r, v) for r, v in both if v.outcome is Outcome.PASSED]
    others = [(r, v) for r, v in both if v.outcome is not Outcome.PASSED]
    faults = known_faults()
    longest = sorted(passed, key=lambda pair: -pair[1].duration_s)[:_MEASURED_ALONE]
    timed = sorted(
        ((_cpu_s(sandbox, reference), reference.task_id) for reference, _ in longest), reverse=True
    )
    slowest_cpu_s, slowest = timed[0] if timed else (0.0, "")
    return Measured(
        n_references=len(both),
        n_passed=len(passed),
        n_known_faults=sum(reference.task_id in faults for reference, _ in others),
        failed=tuple(
            f"{r.task_id} ({v.outcome.value}: {_end(v)})"
            for r, v in others
            if r.task_id not in faults
        ),
        slowest=slowest,
        slowest_cpu_s=slowest_cpu_s,
    )


def _run(sandbox: Sandbox, reference: Reference, *more: str) -> ProgramVerdict:
    return run_function_tests(sandbox, reference.code, (*reference.tests, *more), _WIDE)


def _cpu_s(sandbox: Sandbox, reference: Reference) -> float:
    """CPU seconds of the program with its tests and its waited-for children; a run whose time is not read counts 0."""
    with alone():
        said = _CPU_TIME.search(_run(sandbox, reference, _SAY_CPU_TIME).detail)
    return float(said[1]) if said else 0.0


def _end(verdict: ProgramVerdict) -> str:
    lines = verdict.detail.strip().splitlines()
    return lines[-1][:200] if lines else "no reason"
