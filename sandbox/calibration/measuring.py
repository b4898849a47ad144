"""Measurement of reference solutions in a sandbox: verdicts, and the CPU time of the slowest."""

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
"""Limits that are wide enough for measurements on a slow machine."""
_MEASURED_ALONE = 3
_SAY_CPU_TIME = (
    "raise AssertionError('cpu-time %.3f' % "
    "(lambda t: t[0] + t[1] + t[2] + t[3])(__import__('os').times()))"
)
_CPU_TIME = re.compile(r"cpu-time (\d+\.\d+)")


@dataclass(frozen=True)
class Measurement:
    """Verdicts and CPU time of the reference solutions.

    `failed` contains failures that no known fault of the data explains, with their verdicts.
    """

    n_references: int
    n_passed: int
    n_known_faults: int
    failed: tuple[str, ...]
    slowest: str
    """Task id of the slowest reference; empty if none passed."""
    slowest_cpu_s: float


def measure(sandbox: Sandbox, references: Sequence[Reference]) -> Measurement:
    """Run all references, several at once, to get their verdicts.

    The slowest references then run again, each alone on this host, to measure their CPU time.

    Raises:
        SandboxUnavailable: a program could not run at all.
    """
    with ThreadPoolExecutor(2 * slot_count()) as threads:
        verdicts = list(threads.map(lambda reference: _run(sandbox, reference), references))
    pairs = list(zip(references, verdicts, strict=True))
    passed = [(r, v) for r, v in pairs if v.outcome is Outcome.PASSED]
    others = [(r, v) for r, v in pairs if v.outcome is not Outcome.PASSED]
    faults = known_faults()
    longest = sorted(passed, key=lambda pair: -pair[1].duration_s)[:_MEASURED_ALONE]
    timed = sorted(
        ((_cpu_s(sandbox, reference), reference.task_id) for reference, _ in longest), reverse=True
    )
    slowest_cpu_s, slowest = timed[0] if timed else (0.0, "")
    return Measurement(
        n_references=len(pairs),
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
    """Return the CPU seconds of the program with its tests and waited-for children.

    Return 0 if the time could not be read.
    """
    with alone():
        match = _CPU_TIME.search(_run(sandbox, reference, _SAY_CPU_TIME).detail)
    return float(match[1]) if match else 0.0


def _end(verdict: ProgramVerdict) -> str:
    lines = verdict.detail.strip().splitlines()
    return lines[-1][:200] if lines else "no reason"
